//! Claims about the second evaluator, from the outside.

mod cases;
