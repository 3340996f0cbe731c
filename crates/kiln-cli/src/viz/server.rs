//! A server for one reader on this machine: it answers each request on a thread of its own, and closes.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::Builder;
use std::time::Duration;

/// Status, kind and text.
pub(super) type Answer<'a> = (&'static str, &'static str, Cow<'a, str>);

/// A request may have so many bytes and headers.
const MOST_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// Browsers connect before they have a question. Such a connection ends after this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The page runs its own scripts alone, and asks nobody but this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers requests without end.
pub(super) fn serve<'a>(
    listener: &TcpListener,
    port: u16,
    answer: &(dyn Fn(&str) -> Answer<'a> + Sync),
) {
    std::thread::scope(|scope| {
        for stream in listener.incoming().flatten() {
            // whoever asked may have left; without a thread the browser asks again
            let talk = move || drop(talk(stream, port, answer));
            let _ = Builder::new().spawn_scoped(scope, talk);
        }
    });
}

fn talk<'a>(
    mut stream: TcpStream,
    port: u16,
    answer: &(dyn Fn(&str) -> Answer<'a> + Sync),
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let (status, kind, text) = match url(&head, port) {
        Ok(url) => answer(url),
        Err((status, why)) => (status, "text/plain", Cow::Borrowed(why)),
    };
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: {POLICY}\r\n\r\n"
    )?;
    stream.write_all(text.as_bytes())
}

/// A request up to the empty line.
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < MOST_BYTES {
        match stream.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    Ok(head)
}

/// What is asked for. A page of another site must not read the record, so requests by another name are refused.
fn url(head: &[u8], port: u16) -> Result<&str, (&'static str, &'static str)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = request.parse(head).is_ok_and(|status| status.is_complete());
    let (true, Some("GET"), Some(url)) = (is_whole, request.method, request.path) else {
        return Err(("400 Bad Request", "this server answers GET"));
    };
    let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_ours = |host: &[u8]| names.iter().any(|name| host == name.as_bytes());
    let mut hosts = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_ours(host.value) => Ok(url),
        _ => Err(("403 Forbidden", "this page has another name")),
    }
}
