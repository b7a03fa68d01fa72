mod faults;
mod history;
mod verdicts;
