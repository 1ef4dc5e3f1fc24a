//! The `derivgrind` command.

fn main() {}
