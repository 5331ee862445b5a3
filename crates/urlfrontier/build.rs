//! The messages and calls of the API, from the schema. protox reads it, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=schema/urlfrontier.proto");
    let schema = protox::compile(["urlfrontier.proto"], ["schema"])?;
    tonic_prost_build::configure().compile_fds(schema)?;
    Ok(())
}
