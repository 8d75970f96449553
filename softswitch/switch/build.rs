// Generates the gRPC code. The third-party P4Runtime definitions are not part of this repository: they come with the
// Python package finsy of the project's virtual environment, or from the directory NARROWS_PROTO_PATH.
// SPDX-License-Identifier: Apache-2.0
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

const P4RUNTIME: &str = "p4/v1/p4runtime.proto";

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

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=NARROWS_PROTO_PATH");
    println!("cargo:rerun-if-changed=build.rs");
    let crate_directory = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let third_party = p4runtime_directory(&crate_directory)?;
    let own = crate_directory.join("../proto");
    println!("cargo:rerun-if-changed={}", own.display());
    println!("cargo:rerun-if-changed={}", third_party.join(P4RUNTIME).display());
    let descriptors = protox::compile(
        [P4RUNTIME, "google/rpc/status.proto", "narrows/v1/traffic_manager.proto"],
        [third_party, own],
    )?;
    tonic_prost_build::configure().include_file("proto.rs").compile_fds(descriptors)?;
    Ok(())
}
