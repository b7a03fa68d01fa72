//! Finding our own cgroup in what the kernel says.

use super::*;

#[test]
fn our_own_cgroup_is_found_on_every_kind_of_machine() {
    let check = |version, mounts: &str, memberships: &str, expect: Option<&str>| {
        let found = find_own(version, mounts, memberships);
        assert_eq!(found, expect.map(PathBuf::from), "{mounts}");
    };
    let two = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    let service = "0::/system.slice/sichen.service\n";
    let expect = "/sys/fs/cgroup/system.slice/sichen.service";
    check(Version::Two, two, service, Some(expect));
    check(Version::Freezer, two, service, None);
    // Both versions side by side.
    let both = "41 32 0:36 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                45 32 0:40 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                48 32 0:43 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    let memberships = "6:freezer:/a\n2:cpu,cpuacct:/b\n0::/\n";
    check(
        Version::Freezer,
        both,
        memberships,
        Some("/sys/fs/cgroup/freezer/a"),
    );
    check(
        Version::Two,
        both,
        memberships,
        Some("/sys/fs/cgroup/unified"),
    );
    // A container that sees only its own part.
    let part = "45 32 0:40 /docker/abc /sys/fs/cgroup/freezer ro - cgroup cgroup rw,freezer";
    let inside = "6:freezer:/docker/abc/job\n";
    check(
        Version::Freezer,
        part,
        inside,
        Some("/sys/fs/cgroup/freezer/job"),
    );
    check(Version::Two, "", "", None);
}
