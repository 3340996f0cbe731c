//! Every pass is in a list of `passes.rs` and has a module of its name; every file of a stage says which pass it is, or
//! which pass it is a part of.

use crate::finding::Finding;
use crate::source::{File, Workspace};
use std::collections::BTreeSet;

const LISTS: &str = "crates/kiln-compile/src/passes.rs";
const STAGES: &str = "crates/kiln-compile/src/";

/// The lists against the headers of files.
pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let lists = workspace.sources().find(|f| f.path == LISTS).expect("the lists of passes");
    let listed = listed(&lists.text);
    let stages: BTreeSet<&str> = listed.iter().map(|(stage, _)| *stage).collect();
    let files = workspace.sources().filter_map(|file| Some((file, stage_of(file, &stages)?)));
    let mut out = Vec::new();
    let mut found: BTreeSet<(&str, String)> = BTreeSet::new();
    for (file, stage) in files {
        let first = first_paragraph(&file.text);
        match header(&first) {
            Some(Header::Pass(pass)) if listed.contains(&(stage, pass)) => {
                found.insert((stage, pass.to_string()));
                out.extend(misnamed(file, pass));
            }
            Some(Header::Pass(pass)) => out.push(finding(file, unlisted(stage, pass))),
            Some(Header::PartOf(passes)) => out.extend(
                passes
                    .into_iter()
                    .filter(|pass| !listed.contains(&(stage, pass)))
                    .map(|pass| finding(file, unlisted(stage, pass))),
            ),
            Some(Header::Stage) => {}
            None => out.push(finding(file, "its header names no pass and no stage".to_string())),
        }
    }
    let lacking =
        listed.iter().filter(|(stage, pass)| !found.contains(&(*stage, pass.to_string())));
    out.extend(lacking.map(|(stage, pass)| {
        finding(lists, format!("no module is pass `{pass}` of stage `{stage}`"))
    }));
    out
}

fn finding(file: &File, message: String) -> Finding {
    Finding { path: file.path.clone(), line: 1, message }
}

fn unlisted(stage: &str, pass: &str) -> String {
    format!("pass `{pass}` is not in the list of stage `{stage}`")
}

/// A pass has the name of its module.
fn misnamed(file: &File, pass: &str) -> Option<Finding> {
    let path = file.path.strip_suffix("/mod.rs").or(file.path.strip_suffix(".rs"))?;
    let module = path.rsplit('/').next()?;
    (module != pass).then(|| finding(file, format!("pass `{pass}` is in module `{module}`")))
}

/// The stage and the name of each pass, from `name: "..."`: in a list the stage's own name comes first.
fn listed(text: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    for list in text.split("pub static ").skip(1) {
        let names: Vec<&str> = list.split("name: \"").skip(1).filter_map(quoted).collect();
        if let Some((stage, passes)) = names.split_first() {
            out.extend(passes.iter().map(|pass| (*stage, *pass)));
        }
    }
    out
}

/// What stands before the closing quote.
fn quoted(rest: &str) -> Option<&str> {
    rest.split_once('"').map(|(name, _)| name)
}

/// The stage that a file is a part of, by its folder.
fn stage_of<'a>(file: &File, stages: &BTreeSet<&'a str>) -> Option<&'a str> {
    let (folder, _) = file.path.strip_prefix(STAGES)?.split_once('/')?;
    stages.get(folder).copied()
}

/// What a file is, by the first sentence of its documentation.
#[derive(PartialEq, Debug)]
enum Header<'a> {
    Pass(&'a str),
    PartOf(Vec<&'a str>),
    /// It serves a whole stage.
    Stage,
}

/// The first paragraph of a file's documentation, in one line.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//! "));
    lines.collect::<Vec<&str>>().join(" ")
}

fn header(sentence: &str) -> Option<Header<'_>> {
    let names = |rest| between_backticks(rest).collect::<Vec<&str>>();
    if let Some(rest) = sentence.strip_prefix("Pass ") {
        return names(rest).first().map(|pass| Header::Pass(pass));
    }
    if let Some(rest) = sentence.strip_prefix("Part of pass") {
        return Some(Header::PartOf(names(rest.split([':', ',']).next()?)));
    }
    (sentence.contains("tage `")).then_some(Header::Stage)
}

fn between_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"pub static LOWER: Stage = Stage { name: "lower", passes: &[Pass { name: "gate", .. }] };
        pub static RENDER: Stage = Stage { name: "render", passes: &[Pass { name: "render", .. }] };"#;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let lists = File::new(LISTS, LIST.to_string());
        let file =
            |(path, text): &(&str, &str)| File::new(&format!("{STAGES}{path}"), text.to_string());
        let files = [lists].into_iter().chain(files.iter().map(file)).collect();
        let workspace = Workspace { root: Default::default(), files };
        check(&workspace).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn passes_are_listed_and_have_modules() {
        let render = ("render/render.rs", "//! Pass `render` of stage `render`: text.\n");
        let gate = ("lower/gate.rs", "//! Pass `gate` of stage `lower`: predicates.\n");
        let part = ("lower/bits.rs", "//! Part of passes `gate` and `gate`: bits.\n");
        let shared = ("lower/mod.rs", "//! Stage `lower`: lists.\n");
        assert_eq!(messages(&[render, gate, part, shared]), [""; 0]);
        assert_eq!(messages(&[render]), ["no module is pass `gate` of stage `lower`"]);
        let other = ("lower/other.rs", "//! Pass `other` of stage `lower`: more.\n");
        let stray = ("lower/stray.rs", "//! Part of pass `more`: bits.\n");
        let silent = ("lower/silent.rs", "//! Bits.\n");
        let wrong = ("lower/gates.rs", "//! Pass `gate` of stage `lower`: predicates.\n");
        let found = [
            "pass `other` is not in the list of stage `lower`",
            "pass `more` is not in the list of stage `lower`",
            "its header names no pass and no stage",
            "pass `gate` is in module `gates`",
        ];
        assert_eq!(messages(&[render, gate, other, stray, silent, wrong]), found);
    }
}
