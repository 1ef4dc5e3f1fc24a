//! Client requests: C and C++ headers and a Rust interface for programs that run under derivgrind.
