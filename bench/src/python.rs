//! Where Python and the peers' packages come from.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whom `peers.py` can be.
pub(crate) const PEERS: [&str; 4] = ["torch", "compile", "tinygrad", "ort"];

/// What is installed into the virtual environment.
const PACKAGES: [&str; 6] = [
    "torch==2.9.1",
    "numpy==2.4.6",
    "tinygrad==0.14.0",
    "onnxruntime==1.23.2",
    "onnx==1.19.1",
    "onnxscript==0.5.6",
];

/// The interpreter that was named, or that of a virtual environment, made if there is none.
pub(crate) fn interpreter(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(python) = named {
        return Ok(python.to_path_buf());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    let python = folder.join("bin/python");
    let complete = folder.join("complete");
    if !complete.exists() {
        eprintln!("kiln-bench: installing {} into {}", PACKAGES.join(", "), folder.display());
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
        std::fs::write(&complete, "").map_err(|e| e.to_string())?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(e) => Err(format!("{command:?}: {e}")),
    }
}
