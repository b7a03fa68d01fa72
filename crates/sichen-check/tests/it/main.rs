//! Claims about the checker: good histories pass, and each planted fault is found.

mod faults;
mod fuzz;
mod history;
mod page;
mod rights;
mod verdicts;
