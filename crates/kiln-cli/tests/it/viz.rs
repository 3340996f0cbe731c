//! `kiln viz`: its page in a real browser, and who may read it.

use crate::browser::{Browser, say};
use crate::programs;
use crate::run::Folder;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `kiln viz`.
struct Shown {
    process: Child,
    address: String,
}

impl Shown {
    fn new(record: &Path) -> Shown {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.arg("viz").arg(record).current_dir(root).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').find(|word| word.starts_with("http://"));
        Shown { process, address: address.expect(&line).to_owned() }
    }

    /// The answer to a request, as it came.
    fn answer(&self, request: &str) -> String {
        let host = self.address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(request.replace("HOST", host).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn only_this_machine_reads_only_the_page() {
    let home = Folder::new();
    let record = home.path("names.viz");
    programs::strange(&record);
    let shown = Shown::new(&record);
    let get = |url: &str| shown.answer(&format!("GET {url} HTTP/1.1\r\nHost: HOST\r\n\r\n"));
    assert!(get("/").starts_with("HTTP/1.1 200 OK"));
    assert!(get("/").contains("script-src 'self'") && get("/record").contains("\"nodes\""));
    for url in ["/etc/passwd", "/../Cargo.toml", "/source?file=/etc/passwd", "/source?file=%zz"] {
        assert!(get(url).starts_with("HTTP/1.1 404"), "{url}");
    }
    let own = format!("/source?file={}", programs::REAL_FILE);
    assert!(get(&own).contains("The command, run as users run it."), "a file that is named");
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost", "HOST\r\nHost: evil"] {
        let answer = shown.answer(&format!("GET /record HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
    }
    for broken in ["POST / HTTP/1.1\r\nHost: HOST\r\n\r\n", "\r\n\r\n", "GET\r\n\r\n"] {
        assert!(shown.answer(broken).starts_with("HTTP/1.1 400"), "{broken}");
    }
}

#[test]
fn names_with_html_show_as_text() {
    let Some(mut browser) = Browser::open() else { return };
    let home = Folder::new();
    let record = home.path("names.viz");
    programs::strange(&record);
    let shown = Shown::new(&record);
    for place in [
        "program",
        "program?mode=tensors",
        "program?mode=passes",
        "program?mode=memory",
        "kernel",
        "kernel?tab=steps",
        "kernel?tab=source",
        "kernel?tab=code",
        "kernel?tab=options",
        "decisions?s=1&d=3",
        "timeline?launch=0",
        "rules",
    ] {
        browser.visit(&format!("{}#{place}", shown.address));
        let made = "document.querySelectorAll('#view img, #view b b, #view script').length";
        assert_eq!(browser.value(made), json!(0), "{place}");
        assert_eq!(browser.value("window.broken ?? null"), json!(null), "{place}");
        let text = browser.value("document.body.textContent");
        assert!(text.as_str().unwrap().contains("<img src=x onerror="), "{place}: {text}");
    }
    browser.is_content();
}

#[test]
fn each_view_opens_and_leads_to_the_others() {
    let Some(mut browser) = Browser::open() else { return };
    for program in ["digits", "decode", "writes"] {
        let home = Folder::new();
        let record = home.path("run.viz");
        programs::record(program, &record);
        let shown = Shown::new(&record);
        browser.visit(&shown.address);
        assert!(browser.value("kiln.model.launches.length").as_u64() > Some(2), "{program}");
        // each kernel was made by lines, of the program as a rule
        let orphans =
            "kiln.model.kernels.filter((k) => kiln.model.placesOf(k).length === 0).length";
        let placed = "kiln.model.lines.filter((l) => l.place && l.kernels.size > 0).length > 2";
        assert_eq!(browser.value(placed), json!(true), "{program}");
        assert_eq!(browser.value(orphans), json!(0), "{program}");
        let lost = "kiln.model.schedules.flatMap((s) => s.places).filter((p) => p.kernel.launches.length === 0).length";
        assert_eq!(browser.value(lost), json!(0), "{program}");
        for (key, name, text) in [
            ("2", "Kernels", "for r0"),
            ("3", "Decisions", "Why are two kernels"),
            ("4", "Timeline", "Most memory"),
            ("5", "Rules", "rewrites"),
            ("1", "Program", "Kernels by time"),
        ] {
            browser.press(key);
            browser.wait(&format!("document.title === 'kiln: {name}'"));
            browser
                .wait(&format!("document.getElementById('view').textContent.includes('{text}')"));
        }
        if program == "writes" {
            what_is_chosen_is_in_the_address(&mut browser, &shown.address);
            copies_are_drawn(&mut browser);
        }
        if program == "decode" {
            search_knows_the_names_of_methods(&mut browser);
            nodes_know_what_they_become(&mut browser);
            each_option_shows_its_loops(&mut browser);
            each_pair_of_kernels_has_an_answer(&mut browser);
            machine_code_is_beside_its_lines(&mut browser);
        }
        if program == "digits" {
            by_clicks(&mut browser);
            by_keys(&mut browser);
        }
    }
    browser.is_content();
}

/// From a line to its kernel, to a rewrite, to its rule, and all the way back.
fn by_clicks(browser: &mut Browser) {
    browser.click(".row", "self.conv2.forward");
    browser.wait("document.querySelector('#view').textContent.includes('Its kernels')");
    browser.click("#view tr.opens", "r_");
    browser.wait("location.hash.startsWith('#kernel?k=')");
    browser.wait("kiln.current.kernel?.launches.length > 0");
    browser.click(".switcher button", "Passes");
    browser.click("#view .row.inner", "index_sum");
    browser.wait("document.querySelectorAll('.before, .after').length === 2");
    browser.click(".step button.link", "index_sum");
    browser.wait("document.title === 'kiln: Rules'");
    browser.wait("document.querySelector('.sample .here')?.textContent.includes('index_sum')");
    browser.click(".wide .row", "→");
    browser.wait("/#(kernel|program).*step=/.test(location.hash)");
    for _ in 0..2 {
        browser.press("b");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    browser.wait("location.hash.startsWith('#kernel')");
    browser.click(".facts button.link", "model.rs");
    browser.wait("document.title === 'kiln: Program' && location.hash.includes('line=')");
}

/// A record that ends in the middle or before its first kernel, and one with lines missing, are shown as far as they go.
#[test]
fn damaged_records_are_shown() {
    let Some(mut browser) = Browser::open() else { return };
    let home = Folder::new();
    let record = home.path("run.viz");
    programs::record("writes", &record);
    let text = std::fs::read_to_string(&record).unwrap();
    let cut = [4, 9].map(|tenths| text[..text.len() * tenths / 10].to_owned());
    let thin = [7].map(|nth| {
        let kept = text.lines().enumerate().filter(|(at, _)| at % nth != nth - 1);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    });
    let is_kernel = |line: &&str| line.contains("kernel");
    let start = text.lines().take_while(|line| !is_kernel(line)).map(|line| format!("{line}\n"));
    let start = [start.collect::<String>()];
    for text in cut.iter().chain(&thin).chain(&start) {
        std::fs::write(&record, text).unwrap();
        let shown = Shown::new(&record);
        browser.visit(&shown.address);
        for name in
            ["kernel", "decisions", "timeline", "rules", "program?mode=passes", "kernel?tab=steps"]
        {
            browser.value(&format!("location.hash = '{name}'"));
            browser.wait(&format!(
                "document.querySelector('[aria-current]').dataset.view === '{name}'.split('?')[0]"
            ));
            for key in ["ArrowRight", "]", "g", "+", "e", "["] {
                browser.press(key);
            }
        }
        browser.is_content();
    }
}

/// Ops are found by the methods that made them, and by what methods become; kernels and rules by their names.
fn search_knows_the_names_of_methods(browser: &mut Browser) {
    // a kernel's name tells its lanes, and so the processor
    let kernel = browser.value("kiln.model.kernels[0].name");
    let kernel = kernel.as_str().expect("a name").to_owned();
    browser.press("/");
    browser.wait("kiln.search.input.isConnected");
    let mut found = |words: &str| {
        let find = format!("kiln.search.input.value = '{words}'; kiln.search.find()");
        browser.value(&find);
        let texts = "kiln.search.list.items.map((i) => `${i.text} | ${i.note ?? ''}`).join('\\n')";
        browser.value(texts).as_str().expect("text").to_owned()
    };
    for (words, op) in [
        ("arange", "range index"),
        ("sum", "reduce f32 add"),
        ("softmax", "exp f32"),
        ("softmax", "reduce f32 max"),
        ("matmul programs.rs", "reduce f32 add"),
        ("conv2d", "muladd f32"),
        ("index_sum", "rules/index.rs"),
        (&kernel[..kernel.len().min(3)], &kernel[..]),
        ("softmax programs.rs:76", "reduce f32 max"),
    ] {
        let all = found(words);
        let is_hit = |line: &&str| line.contains(op);
        assert!(all.lines().any(|line| is_hit(&line)), "{words} finds no {op}: {all}");
    }
    assert_eq!(found("no_such_method"), "");
    browser.press("Escape");
}

/// A node of one pass's graph leads to what it is in the next, with the rule that did it, and back.
fn nodes_know_what_they_become(browser: &mut Browser) {
    let kernel = "var rewrites = (k) => k.steps.filter((s) => s.kind === 'rewrite').length;
        kiln.model.kernels.reduce((a, b) => (rewrites(b) > rewrites(a) ? b : a)).at";
    let kernel = browser.value(kernel);
    browser.value(&format!("kiln.go('kernel', {{ k: {kernel}, step: 0 }})"));
    browser.wait("kiln.current.steps?.rows?.length > 40");
    // a node that a rule rewrites in the graph of a pass
    let find = "import('/life.js').then(async ({ life }) => {
        const { rows, owner } = kiln.current.steps;
        for (const [at, row] of rows.entries()) {
            if (row.kind !== 'pass' || row.of.before.length !== 1) continue;
            for (const id of kiln.model.below(row.of.before)) {
                const [next] = (await life(owner, rows, at, id)).becomes;
                const back = next?.how === 'rule' && (await life(owner, rows, at, next.to)).comesFrom;
                if (back && back[0]?.to === id) return { id, step: row.step, to: next.to, rule: next.rules[0].rule };
            }
        }
        return null; })";
    let found = browser.value(find);
    let (id, to) = (&found["id"], &found["to"]);
    browser.value(&format!("kiln.current.steps.go({}, {id})", found["step"]));
    browser.wait("!kiln.current.steps.panel.hidden");
    let panel = "kiln.current.steps.panel.textContent";
    let told = browser.value(panel);
    let told = told.as_str().expect("text");
    let rule = found["rule"].as_str().expect("a rule");
    assert!(told.contains(&format!("Becomes %{to} ")) && told.contains(rule), "{found}: {told}");
    assert!(told.contains(".rs:"), "{told}");
    browser.click(".node button.link", &format!("%{to} "));
    browser.wait(&format!("location.hash.includes('node={to}')"));
    browser.wait(&format!("{panel}.includes('Comes from %{id} ')"));
    // a node of the tensor graph: passes of the schedule, and kernels
    let node =
        "kiln.model.nodes.find((n) => n.by?.startsWith('softmax') && n.label.startsWith('exp')).id";
    browser.value(&format!("kiln.search.node({node})"));
    browser.wait("kiln.current.side?.textContent.includes('What it becomes')");
    browser.wait("/Its line is computed in \\d+: /.test(kiln.current.side.textContent)");
    // a view is none in kernels
    let view = "kiln.model.nodes.find((n) => n.by?.startsWith('softmax') && n.label.startsWith('expand')).id";
    browser.value(&format!("kiln.search.node({view})"));
    browser.wait("kiln.current.side?.textContent.includes('a part of the indices at which')");
}

/// The loops of a kernel after each of its options, with the prices of the alternatives.
fn each_option_shows_its_loops(browser: &mut Browser) {
    let most = "kiln.model.kernels.reduce((a, b) =>
        ((b.compiled?.options.length ?? 0) > (a.compiled?.options.length ?? 0) ? b : a)).at";
    let kernel = browser.value(most);
    browser.value(&format!("kiln.go('kernel', {{ k: {kernel}, tab: 'options' }})"));
    let options = browser.value(&format!("kiln.model.kernels[{kernel}].compiled.options.length"));
    let count = options.as_u64().expect("a number");
    assert!(count > 1, "{count}");
    browser.wait(&format!("document.querySelectorAll('details.option').length === {}", count + 1));
    browser.wait("document.querySelectorAll('details.option .loop').length > 2");
    let priced = "document.querySelectorAll('details.option .chosen-price').length > 0";
    assert_eq!(browser.value(priced), json!(true));
}

/// Of any two kernels of a schedule the page says why they are not one.
fn each_pair_of_kernels_has_an_answer(browser: &mut Browser) {
    let most =
        "kiln.model.schedules.reduce((a, b) => (b.kernels.length > a.kernels.length ? b : a)).at";
    let schedule = browser.value(most);
    browser.value(&format!("kiln.go('decisions', {{ s: {schedule} }})"));
    browser.wait("kiln.current.schedule?.places.length > 5");
    let silent = "import('/pair.js').then(({ explainPair }) => {
        const { schedule } = kiln.current;
        const pairs = schedule.places.flatMap((a) => schedule.places.filter((b) => b.at > a.at).map((b) => [a.at, b.at]));
        const said = ([a, b]) => explainPair(kiln.model, schedule, a, b, kiln).map((e) => e.textContent).join(' ');
        const answers = [/inline: [\\d.]+ us/, /merge: a kernel of its own: \\w/, /the kernel that uses it is full/, /No price was asked/];
        return pairs.filter((pair) => !answers.some((answer) => answer.test(said(pair)))).map((pair) => [pair, said(pair)]); })";
    let silent = browser.value(silent);
    assert_eq!(silent, json!([]));
}

/// A link to the page shows what was chosen when it was copied; rules have the order that it names.
fn what_is_chosen_is_in_the_address(browser: &mut Browser, address: &str) {
    browser.press("4");
    browser.wait("document.title === 'kiln: Timeline'");
    browser.value("kiln.current.choose(kiln.current.rows[1].spans.at(-1))");
    let chosen = "kiln.current.side.textContent";
    let told = browser.value(chosen);
    let hash = browser.value("location.hash");
    assert!(hash.as_str().is_some_and(|hash| hash.contains("span=1.")), "{hash}");
    browser.visit(&format!("{address}{}", hash.as_str().expect("text")));
    browser.wait("document.title === 'kiln: Timeline' && kiln.current.chosen !== undefined");
    assert_eq!(browser.value(chosen), told);
    for (sort, of) in
        [("count", "r.total ?? r.fired.length"), ("time", "r.took ?? 0"), ("name", "r.key")]
    {
        browser.value(&format!("kiln.go('rules', {{ sort: '{sort}' }})"));
        browser.wait(&format!("kiln.current.sort === '{sort}'"));
        let values = browser.value(&format!("kiln.current.shown.map((r) => {of})"));
        let values = values.as_array().expect("a list");
        assert!(values.len() > 3, "{values:?}");
        let mut pairs = values.windows(2);
        let is_sorted = match sort {
            "name" => pairs.all(|pair| pair[0].as_str() <= pair[1].as_str()),
            _ => pairs.all(|pair| pair[0].as_f64() >= pair[1].as_f64()),
        };
        assert!(is_sorted, "{sort}: {values:?}");
    }
    // one statistic, in the header and under the roof
    let median = "var k = kiln.model.kernels.find((k) => k.launches.length > 0);
        kiln.go('kernel', { k: k.at, tab: 'roofline' }); k.median";
    assert!(browser.value(median).as_f64() > Some(0.0));
    browser.wait("document.querySelector('.body')?.textContent.includes('its median launch took')");
    browser.wait("document.querySelector('.step.facts').textContent.includes(' median · ')");
}

/// What a kernel reads of another device comes by a copy with its bytes.
fn copies_are_drawn(browser: &mut Browser) {
    browser.value("kiln.go('program', { s: kiln.model.schedules.at(-1).at })");
    browser.wait("kiln.current.shown?.items.some((item) => item.label === 'copy CPU → CPU:1')");
    let texts = browser.value("kiln.current.shown.texts");
    assert!(texts.as_array().unwrap().contains(&json!("400 B")), "{texts}");
}

/// From a line of the text to its instructions and back, by keys and by the mouse.
fn machine_code_is_beside_its_lines(browser: &mut Browser) {
    let kernel = "kiln.model.kernels.findIndex((k) => k.compiled?.source.includes('fadd'))";
    browser.value(&format!("kiln.go('kernel', {{ k: {kernel}, tab: 'code' }})"));
    browser.wait("document.querySelectorAll('.code .row').length > 20");
    browser.value("var both = kiln.current.machine; both.source.element.focus()");
    let find = "both.source.items.findIndex((i) => i.text.includes('fadd') && i.count > 0)";
    let line = browser.value(find).as_u64().expect("a line");
    for _ in 0..=line {
        browser.press("ArrowDown");
    }
    browser.wait(&format!("both.source.chosen === {line}"));
    let marked = |class: &str, list: &str| {
        let rows = format!("[...document.querySelectorAll('[aria-label=\"{list}\"] .{class}')]");
        format!("{rows}.map((row) => row.textContent)")
    };
    let instructions = browser.value(&marked("same", "Machine code"));
    assert!(instructions.to_string().contains("add"), "{instructions}");
    // of the first instruction of another line, that line
    browser.value("both.code.element.focus()");
    let next = "both.code.items.findIndex((i, at) => at > both.code.chosen && i.begins && i.line)";
    let next = browser.value(next).as_u64().expect("an instruction");
    while browser.value("both.code.chosen").as_u64() < Some(next) {
        browser.press("ArrowDown");
    }
    let same = format!("both.source.chosen + 1 === both.code.items[{next}].line");
    browser.wait(&format!("{same} && {}.length === 1", marked("same", "Source")));
    assert_ne!(browser.value("both.source.chosen"), json!(line));
    browser.hover(".code .row.same", "");
    browser.wait(&format!("{}.length > 0", marked("near", "Machine code")));
    browser.wait(&format!("{}.length === 1", marked("near", "Source")));
    browser.hover("h2", "");
    browser.wait("document.querySelectorAll('.near').length === 0");
}

/// Search, and a walk through the steps of a kernel.
fn by_keys(browser: &mut Browser) {
    browser.press("?");
    browser.wait("document.querySelector('.help') !== null");
    browser.press("Escape");
    browser.wait("document.querySelector('.help') === null");
    browser.press("/");
    browser.value("document.activeElement.value = 'cross_entropy r_'; kiln.search.find()");
    browser.press("Enter");
    browser.wait("document.title === 'kiln: Kernels'");
    browser.click(".switcher button", "Loops");
    browser.wait("kiln.current.tab === 'loops'");
    browser.press("ArrowRight");
    browser.wait("kiln.current.tab === 'steps' && kiln.current.steps.at === 0");
    let last = browser.value("kiln.current.steps.rows.length").as_u64().unwrap();
    assert!(last > 10, "{last} steps");
    for step in 1..last.min(40) {
        browser.press("ArrowRight");
        browser.wait(&format!("kiln.current.steps.at === {step}"));
    }
    browser.press("ArrowLeft");
    browser.wait(&format!("kiln.current.steps.at === {}", last.min(40) - 2));
    browser.press("[");
    browser.wait("kiln.current.steps.rows[kiln.current.steps.at].kind === 'pass'");
    // from node to node of a graph, into a kernel, and back
    browser.press("1");
    browser.wait("document.title === 'kiln: Program'");
    browser.value("kiln.go('program', { mode: 'schedule' })");
    browser.wait("kiln.current.params.mode === 'schedule'");
    browser.value("kiln.current.graph.ready.then(() => kiln.current.graph.canvas.focus())");
    for node in 0..3 {
        browser.press("n");
        browser.wait(&format!("kiln.current.graph.chosen === {node}"));
    }
    browser.press("Enter");
    browser.wait("document.title === 'kiln: Kernels'");
}

/// The time between frames is told and not judged: another program may hold the processor.
#[test]
fn a_hundred_thousand_nodes_can_be_zoomed() {
    let Some(mut browser) = Browser::open() else { return };
    let home = Folder::new();
    let record = home.path("large.viz");
    programs::large(&record, 100_000);
    let shown = Shown::new(&record);
    browser.visit(&format!("{}#program?mode=tensors", shown.address));
    browser.value("kiln.current.graph.ready");
    let groups = browser.value("kiln.current.shown.items.length").as_u64().unwrap();
    assert!((2..5000).contains(&groups), "{groups} groups");
    browser.press("e");
    browser.value("kiln.current.graph.ready");
    assert_eq!(browser.value("kiln.current.shown.items.length"), json!(100_000));
    let times = "kiln.current.graph.measure(60).then((gaps) => gaps.sort((a, b) => a - b))";
    let gaps: Vec<f64> = serde_json::from_value(browser.value(times)).unwrap();
    let drawn = browser.value("Math.max(...kiln.current.graph.drawn.slice(-60))");
    let [middle, longest] = [gaps[30], gaps[59]];
    say(&format!("frames: {middle:.1} ms, at most {longest:.1}; drawing at most {drawn:.1} ms"));
    browser.is_content();
}
