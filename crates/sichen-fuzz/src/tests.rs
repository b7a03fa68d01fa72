//! Claims about the search itself.

use super::*;

#[test]
fn the_same_seed_makes_the_same_inputs_of_bounded_length() {
    let inputs = [b"a: 1\nb: [2]".to_vec(), Vec::new()];
    let all = |seed| {
        let mut dice = Dice::new(seed);
        let made = (0..500).map(|_| mutate::made(&mut dice, &inputs, &["word", "["]));
        made.collect::<Vec<_>>()
    };
    assert_eq!(all(7), all(7));
    assert_ne!(all(7), all(8));
    assert!(all(7).iter().all(|input| input.len() <= MAX_INPUT_BYTES));
    let different: HashSet<_> = all(7).into_iter().collect();
    assert!(different.len() > 300, "{}", different.len());
}

#[test]
fn numbers_what_is_quoted_and_what_is_of_the_input_make_no_new_answer() {
    let shape = |answer| shape(answer, b"spec: colour");
    assert_eq!(shape("3:14: no `abc` here"), shape("12:1: no `x` here"));
    assert_eq!(shape("spec: no colour here"), shape("no here"));
    assert_ne!(shape("no `abc` here"), shape("no `abc` there"));
}

/// A reader that breaks for one thing in a thousand is caught, and the input is kept.
#[test]
fn what_breaks_a_reader_is_found_and_kept() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz/self");
    let caught = catch_unwind(|| {
        fuzz("self", &["x"], &[], |bytes| {
            assert!(!bytes.windows(2).any(|two| two == b"xx"), "it breaks");
            String::new()
        });
    });
    let files = fs::read_dir(&dir).unwrap().flatten();
    let found: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("found-")
        })
        .collect();
    for path in &found {
        let input = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(input.windows(2).any(|two| two == b"xx"), "{input:?}");
    }
    assert!(caught.is_err() && found.len() == 1, "{found:?}");
}
