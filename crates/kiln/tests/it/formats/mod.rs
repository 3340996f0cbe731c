//! Files that other programs write and read.

mod gguf;
mod mutations;
mod numpy;
mod safetensors;
mod torch;

use kiln::nn::StateDict;
use kiln::{DType, Tensor};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-formats-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).expect("a file");
        self.path(name)
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn why<T>(result: Result<T, kiln::Error>) -> String {
    result.err().expect("fails").to_string()
}

/// A file that another program wrote.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/files").join(name)
}

/// What those files hold: made by testdata/golden/files.py.
static EXPECTED: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../testdata/golden/files.json");
    serde_json::from_str(text).expect("JSON")
});

/// The elements of a tensor, row-major, as two hexadecimal digits a byte.
fn hex(t: &Tensor) -> String {
    let flat = t.reshape([-1]);
    let bytes = match t.dtype() {
        DType::Bool => flat.cast(DType::U8),
        _ => flat.bitcast(DType::U8),
    };
    let bytes: Vec<u8> = bytes.to_vec().unwrap_or_else(|e| panic!("{e}"));
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Compares what was loaded with what the file `name` holds, to the last bit.
fn check(name: &str, loaded: &StateDict) {
    let expected = EXPECTED[name].as_object().expect("a file of files.py");
    let names = |keys: Vec<&String>| keys.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(loaded.keys().collect()), names(expected.keys().collect()), "{name}");
    for (key, t) in loaded {
        let as_found = serde_json::json!({
            "dtype": t.dtype().to_string(), "shape": t.shape(), "bytes": hex(t)
        });
        assert_eq!(as_found, expected[key], "{name}: {key}");
    }
}
