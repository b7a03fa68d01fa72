//! Claims about `identity`.

use super::*;

#[test]
fn this_very_program_has_a_name_that_another_one_has_not() {
    let mine = of(&std::env::current_exe().unwrap());
    let others = of(Path::new("/bin/sh"));
    assert!(mine.len() > 20 && others.len() > 20, "{mine}, {others}");
    assert_ne!(mine, others);
    assert_eq!(mine, of(&std::env::current_exe().unwrap()));
}

#[test]
fn without_the_linkers_name_the_bytes_decide() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let one = of(&path);
    assert!(one.starts_with("sha256 "), "{one}");
    std::fs::write(&path, "#!/bin/sh\n\n").unwrap();
    assert_ne!(one, of(&path));
}

/// Notes as a linker writes them, another one first.
#[test]
fn the_name_is_found_among_other_notes_and_cut_short_ones_are_none() {
    let note = |kind: u32, text: &[u8]| {
        let mut bytes = Vec::new();
        for n in [4, u32::try_from(text.len()).unwrap(), kind] {
            bytes.extend(n.to_le_bytes());
        }
        bytes.extend(b"GNU\0");
        bytes.extend(text);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let notes = [note(1, b"abi.."), note(BUILD_ID, b"\x01\x02\x03\x04")].concat();
    assert_eq!(id_of(&notes), Some(b"\x01\x02\x03\x04".as_slice()));
    assert_eq!(id_of(&notes[..notes.len() - 2]), None);
    assert_eq!(id_of(&note(1, b"x")), None);
}
