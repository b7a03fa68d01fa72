//! The `sichen` binary: command line, configuration, roles.

fn main() {}
