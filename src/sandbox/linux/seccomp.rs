//! The seccomp filter of a command's system calls.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// Numbers of system calls, each with the argument rules of which one must match for the call to be filtered. A call
/// with no rules is always filtered.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The processes, shared memory and network that a command has in common with other programs. The filter denies more
/// where no namespace separates them from the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedSurroundings {
    /// Processes and shared memory of the sandbox only, which has namespaces for them. The network is the machine's if
    /// the command may use it; otherwise the sandbox has a namespace for it, too.
    Own,
    /// All processes, the shared memory and the network of the machine: the sandbox has no namespaces.
    Machine,
    /// All processes and the shared memory of the machine, but no network: the sandbox has no namespaces, and the
    /// filter denies every connection.
    MachineWithoutNetwork,
}

/// Number of `open_tree_attr`, which the C library does not name yet. New system calls have the same number on every
/// architecture.
const OPEN_TREE_ATTR: i64 = 467;

/// System calls that are denied to every command: no command needs them, and they have been used to escape sandboxes.
const DENIED_CALLS: &[i64] = &[
    // io_uring makes sockets and opens files without the system calls that this filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Entries to large parts of the kernel that unprivileged programs rarely use.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // Kernel keyrings of the user, which namespaces do not isolate.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Opens files by handle, past the directories that the mounts hide.
    libc::SYS_open_by_handle_at,
    // Calls that change mounts, the root directory or namespaces, and so could undo the sandbox's view of the files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // Calls that change the machine: kernel, modules, swap, clocks, names.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

/// System calls that are also denied where the command shares the machine's processes.
const DENIED_AMONG_OTHERS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    // System V memory, semaphores and queues, and POSIX queues of other programs. They have no paths that Landlock
    // could restrict.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// System calls that are denied where the command shares the machine's processes, unless they act on the calling
/// process. Each comes with the index of the argument that is 0 in that case. Landlock does not restrict these calls:
/// the scheduling and limits of another program are neither files nor signals.
const OWN_ONLY: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// System calls that are also denied where there is no network and no network namespace. The filter cannot
/// distinguish the paths of sockets, so it denies every connection, also to the sockets of docker, D-Bus, tmux and
/// ssh-agent.
const DENIED_WITHOUT_NETWORK: &[i64] =
    &[libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];

/// The `ioctl` requests `TIOCSTI` and `TIOCLINUX`, which put characters into a terminal's input as if its user had
/// typed them.
const PUSH_INPUT: [u64; 2] = [0x5412, 0x541c];

/// Filters the system calls of this process and of all processes that it starts.
pub(super) fn apply(surroundings: SharedSurroundings) -> io::Result<()> {
    for program in programs(surroundings)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Allows only the system calls that a process needs to wait until a descriptor is closed. Any other call kills the
/// process.
pub(super) fn apply_waiting() -> io::Result<()> {
    let allowed = [
        libc::SYS_read,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigreturn,
    ];
    let rules = allowed.into_iter().map(|number| (number, Vec::new())).collect();
    let program = compile(rules, SeccompAction::KillProcess, SeccompAction::Allow)?;
    apply_filter(&program).map_err(io::Error::other)
}

/// Returns the two filter programs as bytes, in the form in which bubblewrap reads them from a descriptor.
pub(super) fn exported(surroundings: SharedSurroundings) -> io::Result<[Vec<u8>; 2]> {
    Ok(programs(surroundings)?.map(|program| program.iter().flat_map(bytes).collect()))
}

fn bytes(line: &sock_filter) -> Vec<u8> {
    let mut bytes = line.code.to_ne_bytes().to_vec();
    bytes.extend([line.jt, line.jf]);
    bytes.extend(line.k.to_ne_bytes());
    bytes
}

/// Returns two filter programs: the first answers its calls with `ENOSYS`, as if the kernel did not have them; the
/// second denies its calls with `EPERM`.
fn programs(surroundings: SharedSurroundings) -> io::Result<[BpfProgram; 2]> {
    // The flags of `clone3` are behind a pointer, which a filter cannot follow. After `ENOSYS`, C libraries fall back
    // to `clone`, whose flags the filter sees.
    let hidden = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let mut programs = [
        compile(hidden, SeccompAction::Allow, unknown)?,
        compile(
            rules(surroundings)?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
        )?,
    ];
    for program in &mut programs {
        program.splice(0..0, other_numbers());
    }
    Ok(programs)
}

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, on_match, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// Returns the instructions that answer all system calls of x32 with `ENOSYS`. x32 shares the architecture of `x86_64`
/// but has other call numbers, so a filter that lists the numbers of `x86_64` would let them through.
fn other_numbers() -> Vec<sock_filter> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let line = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    vec![
        line(LOAD_INSTRUCTION, 0, 0),
        line(JUMP_UNLESS_AT_LEAST, 1, 0x4000_0000),
        line(RETURN_INSTRUCTION, 0, unknown),
    ]
}

/// Instruction codes of BPF: load the call's number, compare it, return an answer.
const LOAD_INSTRUCTION: u16 = 0x20;
const JUMP_UNLESS_AT_LEAST: u16 = 0x35;
const RETURN_INSTRUCTION: u16 = 0x06;

fn rules(surroundings: SharedSurroundings) -> io::Result<Rules> {
    let mut rules: Rules = DENIED_CALLS.iter().map(|number| (*number, Vec::new())).collect();
    // A new user namespace would give the command all capabilities inside it, such as that to mount.
    let user_namespace = libc::CLONE_NEWUSER as u64;
    let new_user = rule([(0, SeccompCmpOp::MaskedEq(user_namespace), user_namespace)])?;
    rules.insert(libc::SYS_unshare, vec![new_user.clone()]);
    rules.insert(libc::SYS_clone, vec![new_user]);
    let input = PUSH_INPUT.iter().map(|request| rule([(1, SeccompCmpOp::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, input.collect::<io::Result<_>>()?);
    // Sockets of all other families are denied.
    let mut families = vec![libc::AF_UNIX, libc::AF_NETLINK];
    if surroundings != SharedSurroundings::MachineWithoutNetwork {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let others =
        families.into_iter().map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    let mut sockets = vec![rule(others)?];
    if surroundings != SharedSurroundings::Own {
        rules.extend(DENIED_AMONG_OTHERS.iter().map(|number| (*number, Vec::new())));
        for (number, argument) in OWN_ONLY {
            rules.insert(*number, vec![rule([(*argument, SeccompCmpOp::Ne, 0)])?]);
        }
    }
    if surroundings == SharedSurroundings::MachineWithoutNetwork {
        rules.extend(DENIED_WITHOUT_NETWORK.iter().map(|number| (*number, Vec::new())));
        // Datagram sockets send without a connection, and so do the sockets of a datagram pair. `sendmsg` takes the
        // address behind a pointer, which a filter cannot follow. So datagram sockets are denied when they are made; a
        // raw Unix socket is a datagram socket, too.
        let mut pairs = Vec::new();
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let kind = (1, SeccompCmpOp::MaskedEq(0xf), u64::from(kind.unsigned_abs()));
            sockets.push(rule([(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64), kind.clone()])?);
            pairs.push(rule([kind])?);
        }
        rules.insert(libc::SYS_socketpair, pairs);
    }
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

/// Returns a rule that compares the low 32 bits of arguments: the high halves of `int` arguments can hold anything.
fn rule(conditions: impl IntoIterator<Item = (u8, SeccompCmpOp, u64)>) -> io::Result<SeccompRule> {
    let conditions = conditions.into_iter().map(|(argument, operator, value)| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}
