//! The machine, the day, the versions: without them a number is no claim.

use crate::options::Options;
use crate::subject::Subject;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a results file begins with.
pub(crate) fn describe(subjects: &[Subject], options: &Options) -> String {
    let versions: Vec<&str> = subjects.iter().map(|s| s.version.as_str()).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cores} processors, load {}; {} threads each, {} rounds in turn; {} at {}.",
        processor(),
        load(),
        options.threads,
        options.rounds,
        versions.join(", "),
        commit()
    )
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == name));
        line.and_then(|l| l.split_once(':')).map(|(_, v)| v.trim().to_owned())
    };
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let model = field("cpu family").zip(field("model"));
    let flags = field("flags").unwrap_or_default();
    let notable = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"];
    let has: Vec<&str> =
        notable.into_iter().filter(|n| flags.split(' ').any(|f| f == *n)).collect();
    let model = model
        .map_or(String::new(), |(f, m)| format!(" (family {f}, model {m}: {})", has.join(" ")));
    name + &model
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|l| !l.is_empty()).unwrap_or("unknown").to_owned()
}

fn commit() -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let git = Command::new("git").args(["-C", folder, "rev-parse", "--short", "HEAD"]).output();
    let text = git.ok().filter(|o| o.status.success()).map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { "an unknown commit".to_owned() } else { text }
}

/// The date, UTC, as `2026-11-21`.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date(now / 86_400)
}

/// The date so many days after the first of 1970, in the Gregorian calendar.
fn date(days: u64) -> String {
    // years that begin in March, so that a leap day ends one; eras of 400 years
    let since = days + 719_468;
    let (era, day) = (since / 146_097, since % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_778), "2026-11-21");
    }
}
