//! Files from the network: a server of the test's own, which breaks off, forgets and lies.

use kiln::{Error, Fetch};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What the server does.
#[derive(Clone)]
struct Plan {
    body: Vec<u8>,
    etag: Option<&'static str>,
    /// How many bytes of each answer arrive, at most.
    breaks_after: usize,
    status: u16,
}

/// A server on this machine, and what it was asked for: the `Range` of each request.
struct Server {
    url: String,
    plan: Arc<Mutex<Plan>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(body: &[u8]) -> Server {
        let plan = Plan {
            body: body.to_vec(),
            etag: Some("\"one\""),
            breaks_after: usize::MAX,
            status: 200,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url =
            format!("http://{}/folder/weights.bin?x=1", listener.local_addr().expect("bound"));
        let (plan, asked) = (Arc::new(Mutex::new(plan)), Arc::new(Mutex::new(Vec::new())));
        let (plan_of, asked_of) = (plan.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let plan = plan_of.lock().expect("a plan").clone();
                let _ = answer(stream, &plan, &asked_of);
            }
        });
        Server { url, plan, asked }
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock().expect("a plan"));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("requests"))
    }
}

fn answer(stream: TcpStream, plan: &Plan, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (mut range, mut if_range) = (String::new(), String::new());
    for line in BufReader::new(&stream).lines() {
        let line = line?;
        match line.to_ascii_lowercase().split_once(": ") {
            Some(("range", value)) => range = value.to_owned(),
            Some(("if-range", _)) => if_range = line[10..].to_owned(),
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    asked.lock().expect("requests").push(range.clone());
    let same = plan.etag.is_some_and(|etag| etag == if_range);
    let start = range.strip_prefix("bytes=").and_then(|r| r.strip_suffix('-')?.parse().ok());
    let start: usize = start.filter(|_| same).unwrap_or(0);
    let rest = &plan.body[start..];
    let status = if start > 0 { 206 } else { plan.status };
    let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", rest.len());
    if start > 0 {
        let (last, all) = (plan.body.len() - 1, plan.body.len());
        head += &format!("Content-Range: bytes {start}-{last}/{all}\r\n");
    }
    if let Some(etag) = plan.etag {
        head += &format!("ETag: {etag}\r\n");
    }
    let mut stream = stream;
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    stream.write_all(&rest[..rest.len().min(plan.breaks_after)])
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-fetch-{name}-{}", std::process::id()));
        Folder(path)
    }

    fn get(&self, server: &Server) -> Result<Vec<u8>, Error> {
        Ok(fs::read(Fetch::new(&server.url).folder(&self.0).run()?).expect("a file"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn body(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn a_file_is_fetched_once() {
    let (server, folder) = (Server::new(&body(100_000)), Folder::new("once"));
    assert_eq!(folder.get(&server).unwrap(), body(100_000));
    server.change(|plan| plan.body = body(3));
    assert_eq!(folder.get(&server).unwrap(), body(100_000), "it is kept");
    assert_eq!(server.asked(), [""]);
    let names = folder.names();
    assert!(names.len() == 1 && names[0].ends_with("-weights.bin"), "{names:?}");
}

#[test]
fn what_a_broken_connection_leaves_is_completed() {
    let (server, folder) = (Server::new(&body(1000)), Folder::new("resume"));
    server.change(|plan| plan.breaks_after = 300);
    assert_eq!(folder.get(&server).unwrap(), body(1000));
    assert_eq!(server.asked(), ["", "bytes=300-", "bytes=600-", "bytes=900-"]);
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn another_process_may_complete_it_later() {
    let (server, folder) = (Server::new(&body(1000)), Folder::new("later"));
    server.change(|plan| plan.breaks_after = 0);
    assert!(folder.get(&server).unwrap_err().to_string().contains("0 of 1000"));
    server.change(|plan| (plan.breaks_after, plan.status) = (400, 500));
    assert!(folder.get(&server).unwrap_err().to_string().contains("says 500"));
    server.change(|plan| plan.status = 200);
    assert_eq!(folder.get(&server).unwrap(), body(1000));
    // a file that has changed meanwhile is not mixed with what was there
    let folder = Folder::new("changed");
    fs::create_dir_all(&folder.0).unwrap();
    server.change(|plan| plan.breaks_after = usize::MAX);
    let path = Fetch::new(&server.url).folder(&folder.0).run().unwrap();
    let beside = |end: &str| PathBuf::from(format!("{}.part{end}", path.display()));
    fs::remove_file(&path).unwrap();
    fs::write(beside(""), [9; 50]).unwrap();
    fs::write(beside(".mark"), "\"two\"").unwrap();
    server.asked();
    assert_eq!(folder.get(&server).unwrap(), body(1000));
    assert_eq!(server.asked(), ["bytes=50-"]);
}

#[test]
fn a_server_that_cannot_resume_begins_again() {
    let (server, folder) = (Server::new(&body(1000)), Folder::new("again"));
    server.change(|plan| (plan.etag, plan.breaks_after) = (None, 300));
    assert!(folder.get(&server).unwrap_err().to_string().contains("300 of 1000"));
    server.change(|plan| plan.breaks_after = usize::MAX);
    assert_eq!(folder.get(&server).unwrap(), body(1000));
    assert!(server.asked().iter().all(String::is_empty));
}

#[test]
fn a_checksum_must_be_right() {
    // of "hello"
    const SUM: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let (server, folder) = (Server::new(b"hellp"), Folder::new("checksum"));
    let run = || Fetch::new(&server.url).folder(&folder.0).sha256(&SUM.to_uppercase()).run();
    let error = run().unwrap_err().to_string();
    assert!(error.contains(SUM) && error.contains("fetch.rs"), "{error}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    server.change(|plan| plan.body = b"hello".to_vec());
    let path = run().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    // one that is damaged on disk is fetched again
    fs::write(&path, "other").unwrap();
    assert_eq!(fs::read(run().unwrap()).unwrap(), b"hello");
    assert_eq!((server.asked().len(), folder.names().len()), (3, 1));
}

#[test]
fn mistakes_are_errors() {
    let (server, folder) = (Server::new(b"x"), Folder::new("mistakes"));
    server.change(|plan| plan.status = 404);
    assert!(folder.get(&server).unwrap_err().to_string().contains("says 404"));
    assert_eq!(server.asked().len(), 1, "asking again would not help");
    let why = |url: &str| Fetch::new(url).folder(&folder.0).run().unwrap_err().to_string();
    assert!(why("file:///etc/passwd").contains("no URL"));
    assert!(!why("http://").is_empty());
    let error = Fetch::new(&server.url).sha256("12").run().unwrap_err().to_string();
    assert!(error.contains("64 hexadecimal"), "{error}");
    // a port where nobody is
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(why(&format!("http://{port}/x")).contains(&port.to_string()));
}

#[test]
fn threads_that_want_the_same_file_share_it() {
    let (server, folder) = (Server::new(&body(50_000)), Folder::new("threads"));
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| folder.get(&server).unwrap())).collect();
        assert!(all.into_iter().all(|t| t.join().unwrap() == body(50_000)));
    });
    assert_eq!(server.asked(), [""]);
}
