// Generates the gRPC code. The third-party P4Runtime definitions are not part of this repository: they come with the
// Python package finsy of the project's virtual environment, or from the directory NARROWS_PROTO_PATH.
// SPDX-License-Identifier: Apache-2.0
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use prost::Message;
use prost_types::FileDescriptorSet;

const P4RUNTIME: &str = "p4/v1/p4runtime.proto";
/// More than Python packages take over a slow network.
const SET_UP_TAKES_AT_MOST: Duration = Duration::from_secs(1800);

/// scripts/setup.sh installs the Python packages while the compiler works, and names a file that is there when they are.
fn wait_for_set_up() {
    let Some(ready) = env::var_os("NARROWS_DEFINITIONS_READY").map(PathBuf::from) else {
        return;
    };
    let started = Instant::now();
    while !ready.exists() && started.elapsed() < SET_UP_TAKES_AT_MOST {
        sleep(Duration::from_millis(100));
    }
}

fn p4runtime_directory(crate_directory: &Path) -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("NARROWS_PROTO_PATH") {
        let path = PathBuf::from(path);
        return match path.join(P4RUNTIME).is_file() {
            true => Ok(path),
            false => Err(format!("NARROWS_PROTO_PATH={} has no {P4RUNTIME}", path.display())),
        };
    }
    let library = crate_directory.join("../../.venv/lib");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&library)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("site-packages/finsy/proto"))
        .filter(|path| path.join(P4RUNTIME).is_file())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| {
        format!(
            "no P4Runtime definitions in {}/python3*/site-packages/finsy/proto: run `make setup`, or set \
             NARROWS_PROTO_PATH to a directory that holds {P4RUNTIME}",
            library.display()
        )
    })
}

/// The definitions, compiled by the protoc of the Python package grpcio-tools.
fn descriptors(crate_directory: &Path, include: &[PathBuf]) -> Result<FileDescriptorSet, Box<dyn Error>> {
    let python = crate_directory.join("../../.venv/bin/python");
    let compiled = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    let done = Command::new(if python.exists() { python } else { "python3".into() })
        .args(["-m", "grpc_tools.protoc", "--include_imports"])
        .arg(format!("--descriptor_set_out={}", compiled.display()))
        .args(include.iter().map(|directory| format!("-I{}", directory.display())))
        .args([P4RUNTIME, "google/rpc/status.proto", "narrows/v1/traffic_manager.proto"])
        .output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("grpc_tools.protoc, of the Python package grpcio-tools: {said}").into());
    }
    Ok(FileDescriptorSet::decode(std::fs::read(compiled)?.as_slice())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=NARROWS_PROTO_PATH");
    println!("cargo:rerun-if-changed=build.rs");
    wait_for_set_up();
    let crate_directory = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let third_party = p4runtime_directory(&crate_directory)?;
    println!("cargo:rerun-if-changed=narrows");
    println!("cargo:rerun-if-changed={}", third_party.join(P4RUNTIME).display());
    let descriptors = descriptors(&crate_directory, &[third_party, crate_directory.clone()])?;
    tonic_prost_build::configure().build_client(false).include_file("proto.rs").compile_fds(descriptors)?;
    Ok(())
}
