//! Claims about `folder`.

use super::*;

#[test]
fn a_planted_secret_is_in_no_file_of_the_folder_and_a_folder_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evidence");
    let mut secrets = Secrets::default();
    secrets.add("planted-0123456789");
    let mut folder = Folder::make(&path, secrets).unwrap();
    folder
        .write(
            "logs/a.log",
            "token=planted-0123456789 at postgres://u:pw@h/d\n",
        )
        .unwrap();
    let text = std::fs::read_to_string(path.join("logs/a.log")).unwrap();
    assert_eq!(text, "token=*** at postgres://u:***@h/d\n");
    assert!(folder.leaks().is_empty());
    assert!(Folder::make(&path, Secrets::default()).is_err());
}
