//! One request, for what is missing of a file. (RFC 9110, sections 13.1.5 and 14: `If-Range`, `Range`.)

use super::place::Part;
use std::io::Read;
use std::time::Duration;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

/// How long a connection and an answer may take.
const CONNECT: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(60);

/// How long one request may take in all. What has arrived by then is kept, and the next one goes on.
const REQUEST: Duration = Duration::from_secs(600);

/// Why a request failed, and whether another one would fail, too.
pub(super) struct Failed {
    pub(super) text: String,
    pub(super) is_final: bool,
}

impl Failed {
    fn again(text: impl ToString) -> Failed {
        Failed { text: text.to_string(), is_final: false }
    }

    fn last(text: impl ToString) -> Failed {
        Failed { text: text.to_string(), is_final: true }
    }
}

/// Completes `part`.
pub(super) fn run(url: &str, part: &Part) -> Result<(), Failed> {
    let has = part.len().map_err(Failed::last)?;
    let response = ask(url, has, part.mark())?;
    let mark = text(response.headers(), "etag").filter(|mark| !mark.starts_with("W/"));
    let total = match response.status().as_u16() {
        200 => {
            part.start(mark.as_deref()).map_err(Failed::last)?;
            text(response.headers(), "content-length").and_then(|n| n.parse().ok())
        }
        206 => match range(response.headers()) {
            Some((start, total)) if start == has => Some(total),
            _ => return restart(part, "the server sends another part than was asked for"),
        },
        416 => return restart(part, "the server has less of the file than was there"),
        code @ (408 | 429 | 500..) => return Err(Failed::again(format!("the server says {code}"))),
        code => return Err(Failed::last(format!("the server says {code}"))),
    };
    let copied = copy(response, part);
    let has = part.len().map_err(Failed::last)?;
    match (copied, total) {
        (Err(failed), _) if failed.is_final => Err(failed),
        (_, Some(total)) if has < total => {
            Err(Failed::again(format!("the connection ended after {has} of {total} bytes")))
        }
        (_, Some(total)) if has > total => restart(part, "more bytes than the server announced"),
        (copied, _) => copied,
    }
}

/// Asks for the bytes from `has` on, if the file is still the one with this mark; without a mark, for all.
fn ask(url: &str, has: u64, mark: Option<String>) -> Result<Response<Body>, Failed> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_global(Some(REQUEST))
        .build();
    let mut request = Agent::new_with_config(config).get(url);
    if let Some(mark) = mark.filter(|_| has > 0) {
        request = request.header("Range", format!("bytes={has}-")).header("If-Range", mark);
    }
    request.call().map_err(|error| match error {
        ureq::Error::BadUri(_) | ureq::Error::HostNotFound => Failed::last(error),
        _ => Failed::again(error),
    })
}

fn copy(response: Response<Body>, part: &Part) -> Result<(), Failed> {
    let (mut from, mut room) = (response.into_body().into_reader(), vec![0; 1 << 16]);
    loop {
        match from.read(&mut room).map_err(Failed::again)? {
            0 => return Ok(()),
            n => part.append(&room[..n]).map_err(Failed::last)?,
        }
    }
}

fn restart<T>(part: &Part, why: &str) -> Result<T, Failed> {
    part.start(None).map_err(Failed::last)?;
    Err(Failed::again(why))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Where the part that is sent starts, and how long the file is: `bytes 7-99/100`.
fn range(headers: &HeaderMap) -> Option<(u64, u64)> {
    let range = text(headers, "content-range")?;
    let (part, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    Some((part.split_once('-')?.0.parse().ok()?, total.parse().ok()?))
}
