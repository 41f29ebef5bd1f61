use serde::Serialize;
fn main() {}
