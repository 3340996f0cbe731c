//! The book says what is so: its programs run, its blocks show what they make, and its chapters are listed.

#![allow(clippy::print_stderr)]

use kiln_book::chapter::{Block, blocks, chapters, folder};
use kiln_book::show;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The device whose kernels the book shows.
const SHOWN: &str = "CPU:LLVM:x86_64,haswell";

/// The program in a process of its own, for which no variable of kiln is set.
fn run(chapter: &str, number: usize, part: &str, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln-book"));
    command.arg(chapter).arg(number.to_string()).args(part.split_whitespace());
    let names = kiln::env::describe().into_iter().map(|variable| variable.name);
    for name in names.filter(|name| !["KILN_LLVM", "KILN_CC", "XDG_CACHE_HOME"].contains(name)) {
        command.env_remove(name);
    }
    command.envs(env.iter().copied()).output().expect("runs")
}

/// The results of all the work, of which two things are done at a time, in its order.
fn each<T: Sync, R: Send>(work: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one = || {
        let i = next.fetch_add(1, Ordering::Relaxed);
        work.get(i).map(|item| (i, f(item)))
    };
    let some = || std::iter::from_fn(one).collect::<Vec<_>>();
    let mut done = std::thread::scope(|scope| {
        let other = scope.spawn(some);
        let mut done = some();
        done.extend(other.join().expect("no panic"));
        done
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn every_program_runs() {
    let mut work: Vec<(String, usize)> = Vec::new();
    for (chapter, text) in chapters() {
        let count = blocks(&text).iter().filter(|block| block.is_program()).count();
        work.extend((1..=count).map(|number| (chapter.clone(), number)));
    }
    assert!(!work.is_empty());
    let failed: Vec<String> = each(&work, |(chapter, number)| {
        let output = run(chapter, *number, "", &[]);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then(|| format!("{chapter}, program {number}: {why}"))
    })
    .into_iter()
    .flatten()
    .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A block that shows something: its chapter, the number of the program above it, and itself.
type Shown = (String, usize, Block);

/// Those that this compiler makes: machine code is another with another LLVM.
fn shown(compiler: &str) -> Vec<Shown> {
    let is_ours = |block: &Block| match block.info.split_once("llvm=") {
        Some((_, version)) => ["libLLVM.so.", "libLLVM-"]
            .iter()
            .any(|name| compiler.contains(&format!("{name}{version}"))),
        None => true,
    };
    let mut out = Vec::new();
    for (chapter, text) in chapters() {
        let mut number = 0;
        for block in blocks(&text) {
            number += usize::from(block.is_program());
            if block.shows().is_some() && is_ours(&block) {
                assert!(number > 0, "{chapter}: {} is below no program", block.info);
                out.push((chapter.clone(), number, block));
            }
        }
    }
    out
}

/// What the block should hold.
fn made((chapter, number, block): &Shown) -> String {
    let part = block.shows().expect("it shows something");
    let env = [
        ("DEV", SHOWN),
        ("LENGTHS", "0"),
        ("KILN_CACHE", "none"),
        ("KILN_THREADS", "2"),
        ("SPEC", "1"),
    ];
    let output = run(chapter, *number, part, &env);
    let [out, err] = [output.stdout, output.stderr].map(|s| String::from_utf8(s).expect("text"));
    let text = match part.starts_with("output") {
        true => show::printed(part, &out).expect("a request"),
        false => err.clone(),
    };
    assert!(output.status.success() && !text.trim().is_empty(), "{chapter} {number} {part}: {err}");
    text
}

/// The chapter with the blocks' new lines.
fn rewritten(text: &str, blocks: &[(Block, String)]) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for (block, made) in blocks.iter().rev() {
        lines.splice(block.lines.clone(), made.lines());
    }
    lines.join("\n") + "\n"
}

#[test]
fn blocks_show_what_programs_make() {
    let compiler = match kiln::Device::parse(SHOWN).and_then(|device| device.describe()) {
        Ok(compiler) => compiler,
        Err(why) => {
            eprintln!("skipped: the blocks of the book are for {SHOWN} ({why})");
            return;
        }
    };
    let work = shown(&compiler);
    let made = each(&work, made);
    let updates = std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1");
    let mut wrong = Vec::new();
    for (chapter, text) in chapters() {
        let of_chapter = work.iter().zip(&made).filter(|((c, _, _), _)| *c == chapter);
        let new: Vec<(Block, String)> =
            of_chapter.map(|((_, _, block), made)| (block.clone(), made.clone())).collect();
        let new = rewritten(&text, &new);
        if new != text && updates {
            std::fs::write(folder().join(format!("{chapter}.md")), &new).expect("writes");
        } else if new != text {
            let line = text.lines().zip(new.lines()).position(|(a, b)| a != b).unwrap_or(0);
            let of = |text: &str| text.lines().nth(line).unwrap_or("").to_owned();
            wrong.push(format!("{chapter}.md:{}: {:?} is now {:?}", line + 1, of(&text), of(&new)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nUPDATE_EXPECT=1 cargo test -p kiln-book writes it",
        wrong.join("\n")
    );
}

#[test]
fn chapters_are_listed_and_open_with_a_question() {
    let mut chapters = chapters();
    let summary = chapters.iter().position(|(name, _)| name == "SUMMARY").expect("a summary");
    let (_, summary) = chapters.remove(summary);
    for (name, text) in chapters {
        assert_eq!(summary.matches(&format!("]({name}.md)")).count(), 1, "{name}");
        let mut lines = text.lines().filter(|line| !line.is_empty());
        assert!(lines.next().is_some_and(|line| line.starts_with("# ")), "{name}: no title");
        let question = lines.next().unwrap_or("");
        assert!(question.starts_with('*') && question.ends_with("?*"), "{name}: {question:?}");
    }
}

#[test]
fn a_request_cuts_what_it_names() {
    let output = "one\n  two\nthree\n\nfour\n\n";
    let cut = |request: &str| show::printed(request, output).expect("a request");
    assert_eq!(cut("output"), "one\n  two\nthree\n\nfour\n");
    assert_eq!(cut("output paragraph=2"), "four\n");
    assert_eq!(cut("output from=two to=three"), "  two\nthree\n");
    assert_eq!(cut("output paragraph=1 lines=1"), "one\n");
    for bad in ["", "output paragraph=x", "output up"] {
        assert!(show::printed(bad, output).is_err(), "{bad}");
    }
}

#[test]
fn blocks_are_found_and_replaced() {
    let text = "# a\n```rust\nx\n```\n```text list\nold\nold\n```\n```text\nkept\n```\n";
    let blocks = blocks(text);
    let kinds: Vec<(bool, Option<&str>)> =
        blocks.iter().map(|block| (block.is_program(), block.shows())).collect();
    assert_eq!(kinds, [(true, None), (false, Some("list")), (false, None)]);
    let new = rewritten(text, &[(blocks[1].clone(), "new\n".to_owned())]);
    assert_eq!(new, text.replace("old\nold", "new"));
}
