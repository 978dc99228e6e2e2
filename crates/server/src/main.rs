//! Porpoise: the server binary.

fn main() {}
