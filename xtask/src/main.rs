//! Set-up, test and benchmark commands.

fn main() {}
