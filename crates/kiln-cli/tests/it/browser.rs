//! A headless Chromium, driven through its two pipes: commands and answers are JSON, each ended by a zero byte.

use crate::run::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// So long a page may take to show what a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells whoever reads the output of a test.
#[allow(clippy::print_stdout, reason = "it is not counted, or it is a figure")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    count: u64,
    /// What the page's scripts threw, or a policy refused.
    complaints: Vec<String>,
    _profile: Folder,
}

impl Browser {
    /// None where there is no Chromium; the test says so and ends.
    pub(crate) fn open() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        let Some(name) = names.iter().find(is_there) else {
            say("SKIPPED: there is no Chromium here");
            return None;
        };
        let profile = Folder::new();
        // the browser's pipes are its third and fourth file
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --no-first-run --window-size=1280,800 \
             --remote-debugging-pipe --user-data-dir=\"$1\" about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, name]).arg(profile.path("profile"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut browser = Browser {
            process,
            commands,
            answers,
            session: None,
            count: 0,
            complaints: vec![],
            _profile: profile,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let made = self.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let to = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = self.ask("Target.attachToTarget", to);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.ask(domain, json!({}));
        }
        let size = json!({ "width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let mut command = json!({ "id": self.count, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        self.commands.flush().unwrap();
        loop {
            let mut answer = self.read();
            if answer["id"] == json!(self.count) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            if ["Runtime.exceptionThrown", "Log.entryAdded"].iter().any(|m| answer["method"] == *m)
            {
                let told = answer["params"].to_string();
                // a source file that is not here is no mistake
                if !told.contains("\"source\":\"network\"") {
                    self.complaints.push(told);
                }
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut text = Vec::new();
        self.answers.read_until(0, &mut text).unwrap();
        assert_eq!(text.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&text).unwrap()
    }

    /// Opens a page of `kiln viz` and waits for the record.
    pub(crate) fn visit(&mut self, address: &str) {
        // a page that differs in its last part alone would not be loaded anew
        for url in ["about:blank", address] {
            self.ask("Page.navigate", json!({ "url": url }));
        }
        self.wait("!!window.kiln && !!document.querySelector('#view section')");
    }

    /// The value of an expression; a promise is waited for.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let what = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.ask("Runtime.evaluate", what);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let started = Instant::now();
        while self.value(expression) != json!(true) {
            if started.elapsed() > PATIENCE {
                let shown = self.value("location.href + document.body.innerText.slice(0, 2000)");
                panic!("{expression} stays false: {shown} {:?}", self.complaints);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks on the first element whose text contains `text`.
    pub(crate) fn click(&mut self, selector: &str, text: &str) {
        self.mouse(&["mousePressed", "mouseReleased"], selector, text);
    }

    /// Moves the mouse there.
    pub(crate) fn hover(&mut self, selector: &str, text: &str) {
        self.mouse(&["mouseMoved"], selector, text);
    }

    /// Events of the mouse in the middle of the first element whose text contains `text`.
    fn mouse(&mut self, kinds: &[&str], selector: &str, text: &str) {
        let find = format!(
            "(() => {{ const found = [...document.querySelectorAll({})].find((e) => e.textContent.includes({}));
               if (!found) return null;
               found.scrollIntoView({{ block: 'nearest' }});
               const box = found.getBoundingClientRect();
               return [box.x + Math.min(box.width / 2, 40), box.y + box.height / 2]; }})()",
            json!(selector),
            json!(text)
        );
        self.wait(&format!("{find} !== null"));
        let place = self.value(&find);
        for kind in kinds {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": button, "clickCount": 1 });
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        self.ask("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "text": text }));
        self.ask("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Nothing was thrown and no policy was broken.
    pub(crate) fn is_content(&mut self) {
        self.value("1");
        assert_eq!(self.complaints, [""; 0]);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Browser.close" });
        let said = self.commands.write_all(format!("{close}\0").as_bytes());
        if said.and_then(|()| self.commands.flush()).is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
