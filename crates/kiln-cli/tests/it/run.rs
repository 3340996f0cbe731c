//! Runs the command with an environment of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty folder, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kiln-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the command said.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `kiln` with words as arguments. Its cache is in `home`, and kiln's variables are `env` alone.
pub(crate) fn kiln(home: &Folder, args: &str, env: &[(&str, &str)]) -> Said {
    said(command(home, args.split_whitespace()).envs(env.iter().copied()).output().unwrap())
}

/// As [`kiln`], with arguments that may have spaces, and a standard input.
pub(crate) fn kiln_reading<'a>(
    home: &Folder,
    args: impl IntoIterator<Item = &'a str>,
    input: &str,
) -> Said {
    let mut command = command(home, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // a process that ends early reads nothing
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    said(child.wait_with_output().unwrap())
}

fn command<'a>(home: &Folder, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(args).current_dir(&home.0);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KILN_") || ["DEV", "DEBUG", "NOOPT"].contains(&&*text) {
            command.env_remove(&name);
        }
    }
    command.env("XDG_CACHE_HOME", &home.0);
    command
}

fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    /// The run succeeded, and standard output is one line of JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert!(self.ok, "{}", self.err);
        assert_eq!(self.out.lines().count(), 1, "{}", self.out);
        serde_json::from_str(&self.out).unwrap()
    }

    /// The run failed with one line that contains `why`.
    pub(crate) fn fails_with(&self, why: &str) {
        assert!(!self.ok && self.out.is_empty(), "{}", self.out);
        assert!(self.err.starts_with("kiln: ") && self.err.contains(why), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
    }

    /// The losses of the steps.
    pub(crate) fn losses(&self) -> Vec<&str> {
        let all = self.out.lines().chain(self.err.lines());
        all.filter_map(|line| line.strip_prefix("loss ")).collect()
    }
}

/// The middle of a file is gone.
pub(crate) fn cut_short(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}
