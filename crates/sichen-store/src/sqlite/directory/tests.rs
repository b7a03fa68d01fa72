//! Claims about the data directory.

use super::*;

#[test]
fn network_file_systems_are_refused_by_their_magic() {
    assert_eq!(judge(0x6969), Judged::Network("NFS"));
    assert_eq!(
        judge(i64::from(0xff53_4d42_u32.cast_signed())),
        Judged::Network("CIFS")
    );
    assert_eq!(judge(FUSE), Judged::Unsure);
    assert_eq!(judge(0xef53), Judged::Local);
}
