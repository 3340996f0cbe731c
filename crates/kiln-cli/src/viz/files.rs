//! The files of the page. They are part of the program, so that it works without a network and without an installation.

/// A file: its address, its kind and its text.
pub(super) type File = (&'static str, &'static str, &'static str);

/// A script of the page, by its name.
macro_rules! script {
    ($name:literal) => {
        (concat!("/", $name), "text/javascript; charset=utf-8", include_str!($name))
    };
}

/// All of them.
pub(super) const FILES: &[File] = &[
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
    script!("decisions.js"),
    script!("dom.js"),
    script!("format.js"),
    script!("graph.js"),
    script!("kernel.js"),
    script!("layout.js"),
    script!("life.js"),
    script!("list.js"),
    script!("machine.js"),
    script!("main.js"),
    script!("memory.js"),
    script!("model.js"),
    script!("nest.js"),
    script!("nodes.js"),
    script!("pair.js"),
    script!("program.js"),
    script!("roofline.js"),
    script!("rows.js"),
    script!("rules.js"),
    script!("schedule.js"),
    script!("search.js"),
    script!("source.js"),
    script!("steps.js"),
    script!("timeline.js"),
    script!("words.js"),
];
