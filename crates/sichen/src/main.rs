//! The `sichen` program.
#![allow(dead_code)]
mod command;
mod demo;

fn main() {}
