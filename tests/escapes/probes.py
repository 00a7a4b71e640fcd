"""Probes of a sandbox. Each runs in a separate process: python3 probes.py NAME.

An escape prints "open: ..." if it succeeded, which it must not, and "held: ..." if the
system refused it. An ordinary probe prints "works" or fails with a traceback. The test that
starts a probe also checks the machine outside of the sandbox, which decides the result.
"""
import array, ctypes, errno, fcntl, json, mmap, os, platform, signal, socket, stat, struct, subprocess, sys, tempfile, time

W = json.loads(os.environ.get("ESCAPES_WORLD", "{}"))
libc = ctypes.CDLL(None, use_errno=True)
ESCAPES, ORDINARY = {}, {}

NUMBERS = {
    "x86_64": dict(ptrace=101, mount=165, umount2=166, chroot=161, open_tree=428, move_mount=429, fsopen=430, mount_setattr=442,
                   setns=308, unshare=272, clone=56, clone3=435, bpf=321, perf_event_open=298, userfaultfd=323, keyctl=250, add_key=248,
                   io_uring_setup=425, open_by_handle_at=304, process_vm_readv=310, pidfd_open=434, pidfd_getfd=438, mknodat=259,
                   syslog=103, pivot_root=155, init_module=175, reboot=169, name_to_handle_at=303, pidfd_send_signal=424, shmget=29, shmat=30,
                   setxattr=188, quotactl=179, swapon=167, personality=135, kcmp=312, acct=163, kexec_load=246, delete_module=176, settimeofday=164,
                   clock_settime=227, sethostname=170, iopl=172, vhangup=153, fanotify_init=300, request_key=249, io_uring_enter=426, io_uring_register=427,
                   fspick=433, fsconfig=431, open_tree_attr=467, quotactl_fd=443, process_madvise=440, process_vm_writev=311, tgkill=234,
                   rt_sigqueueinfo=129, mq_open=240, msgget=68, semget=64, ioctl=16, execveat=322, memfd_create=319, io_setup=206),
    "aarch64": dict(ptrace=117, mount=40, umount2=39, chroot=51, open_tree=428, move_mount=429, fsopen=430, mount_setattr=442,
                    setns=268, unshare=97, clone=220, clone3=435, bpf=280, perf_event_open=241, userfaultfd=282, keyctl=219, add_key=217,
                    io_uring_setup=425, open_by_handle_at=265, process_vm_readv=270, pidfd_open=434, pidfd_getfd=438, mknodat=33,
                    syslog=116, pivot_root=41, init_module=105, reboot=142, name_to_handle_at=264, pidfd_send_signal=424, shmget=194, shmat=196,
                    setxattr=5, quotactl=60, swapon=224, personality=92, kcmp=272, acct=89, kexec_load=104, delete_module=106, settimeofday=170,
                    clock_settime=112, sethostname=161, vhangup=58, fanotify_init=262, request_key=218, io_uring_enter=426, io_uring_register=427,
                    fspick=433, fsconfig=431, open_tree_attr=467, quotactl_fd=443, process_madvise=440, process_vm_writev=271, tgkill=131,
                    rt_sigqueueinfo=138, mq_open=180, msgget=186, semget=190, ioctl=29, execveat=281, memfd_create=279, io_setup=0),
}[platform.machine()]


def call(name, *args):
    """A system call that must be refused."""
    libc.syscall.restype = ctypes.c_long
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    r = libc.syscall(ctypes.c_long(NUMBERS[name]), *args)
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r


def escape(f):
    ESCAPES[f.__name__] = f
    return f


def ordinary(f):
    ORDINARY[f.__name__] = f
    return f


def read(path):
    with open(path, "rb") as f:
        return f.read(200).decode("latin-1")


def write(path, mode="a"):
    with open(path, mode) as f:
        f.write("# escaped\n")
    return "wrote " + path


def remove(path):
    try: os.rmdir(path)
    except OSError: subprocess.run(["rm", "-r", path])


def home(*p):
    return os.path.join(W["home"], *p)


def ws(*p):
    return os.path.join(W["workspace"], *p)


# ---------------------------------------------------------------- files, read

@escape
def read_key(): return read(home(".ssh/id_ed25519"))
@escape
def read_credentials(): return read(home(".aws/credentials"))
@escape
def read_netrc(): return read(home(".netrc"))
@escape
def read_in_a_layer(): return read(home(".config/gh/hosts.yml"))
@escape
def read_listed_as_hidden(): return read(home("mine/private.txt"))
@escape
def list_keys(): return str(os.listdir(home(".ssh")))
@escape
def size_of_a_key(): return str(os.stat(home(".ssh/id_ed25519")).st_size)
@escape
def size_of_a_login():
    size = os.stat(home(".netrc")).st_size
    if not size: raise OSError("it looks empty")
    return str(size)
@escape
def watch_keys():
    if libc.inotify_add_watch(libc.inotify_init1(0), home(".ssh").encode(), 0xfff) < 0: raise OSError(ctypes.get_errno(), "refused")
    return "watched"


@escape
def read_by_a_symlink():
    link = ws("link-key")
    if not os.path.islink(link): os.symlink(home(".ssh/id_ed25519"), link)
    try: return read(link)
    finally: os.unlink(link)


@escape
def read_by_proc_self_root(): return read("/proc/self/root" + home(".ssh/id_ed25519"))
@escape
def read_by_proc_1_root(): return read("/proc/1/root" + home(".ssh/id_ed25519"))
@escape
def read_by_proc_1_cwd(): return read("/proc/1/cwd" + home(".ssh/id_ed25519"))
@escape
def read_by_proc_outside_root(): return read("/proc/%d/root%s" % (W["victim"], home(".ssh/id_ed25519")))


@escape
def read_by_a_hard_link():
    os.link(home(".netrc"), ws("hard"))
    return read(ws("hard"))


@escape
def read_by_renaming():
    os.rename(home(".ssh"), ws("ssh"))
    return read(ws("ssh/id_ed25519"))


@escape
def read_after_chmod():
    os.chmod(home(".ssh"), 0o755)
    return str(os.listdir(home(".ssh")))


@escape
def read_after_umount():
    call("umount2", home(".ssh").encode(), 2)
    return read(home(".ssh/id_ed25519"))


@escape
def read_after_umount_in_a_new_user_namespace():
    call("unshare", 0x10000000 | 0x20000)
    call("umount2", home(".ssh").encode(), 2)
    return read(home(".ssh/id_ed25519"))


@escape
def bind_in_a_new_user_namespace():
    call("unshare", 0x10000000 | 0x20000)
    call("mount", W["home"].encode(), b"/mnt", None, 4096, None)
    return read("/mnt/.ssh/id_ed25519")


@escape
def read_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    mount_id = ctypes.c_int()
    call("name_to_handle_at", -100, home(".ssh").encode(), handle, ctypes.byref(mount_id), 0)
    fd = os.open(W["home"], os.O_RDONLY)
    call("open_by_handle_at", fd, handle, os.O_RDONLY)
    return "opened by handle"


@escape
def environment_of_a_process_outside(): return read("/proc/%d/environ" % W["victim"])


@escape
def see_a_process_outside():
    for p in filter(str.isdigit, os.listdir("/proc")):
        try: text = open("/proc/%s/cmdline" % p, "rb").read()
        except OSError: continue
        if W["marker"].encode() in text: return "saw " + p
    raise OSError("none is seen")


@escape
def environment_of_process_1(): return read("/proc/1/environ") or "read"


@escape
def state_of_other_sessions():
    return read(os.path.join(W["sessions"], "other-session", "transcript"))


@escape
def read_own_session_transcript():
    out = []
    for root, dirs, files in os.walk(W["sessions"]):
        out += [os.path.join(root, f) for f in files if f.endswith((".jsonl", ".log", "lock", "timeline"))]
    if not out: raise OSError("nothing is there")
    return str(out)


@escape
def secret_in_the_environment(): return os.environ["ESCAPES_API_KEY"]
@escape
def agent_in_the_environment(): return os.environ["SSH_AUTH_SOCK"]


@escape
def read_by_the_root_of_any_process():
    for p in filter(str.isdigit, os.listdir("/proc")):
        for way in "/proc/%s/root", "/proc/%s/cwd/../../../../../../../..", "/proc/%s/task/%s/root":
            try: return read((way % ((p,) * way.count("%s"))) + home(".ssh/id_ed25519"))
            except OSError: continue
    raise OSError("by none")


@escape
def read_by_openat2():
    libc.syscall.restype = ctypes.c_long
    fd = libc.syscall(ctypes.c_long(437), ctypes.c_long(-100), home(".netrc").encode(), struct.pack("QQQ", 0, 0, 0), ctypes.c_long(24))
    if fd < 0: raise OSError(ctypes.get_errno(), "refused")
    return os.read(fd, 200).decode()


@escape
def read_by_a_setuid_reader():
    """Reads through setuid programs, if they get their rights."""
    for program in "/usr/bin/su", "/usr/bin/newgrp", "/usr/bin/pkexec", "/usr/bin/at", "/usr/bin/crontab", "/usr/bin/ssh-agent":
        if not os.path.exists(program): continue
        p = subprocess.Popen([program, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = open("/proc/%d/status" % p.pid).read()
            ids = next(l for l in status.splitlines() if l.startswith("Uid:")).split()[1:]
            if set(ids) != {str(os.getuid())}: return "%s runs as %s" % (program, ids)
        except (OSError, StopIteration): pass
        finally: p.kill(); p.wait()
    raise OSError("none has other rights")


@escape
def read_a_core_of_another_program():
    with open("/proc/sys/kernel/core_pattern") as f: pattern = f.read()
    return write("/proc/sys/kernel/core_pattern") + pattern


@escape
def keys_of_the_user():
    with open("/proc/keys") as f: text = f.read()
    if W["posix"] in text: return text
    raise OSError("they are not there")


@escape
def kernel_memory(): return read("/proc/kcore")
@escape
def port_memory(): return read("/dev/port")

# ---------------------------------------------------------------- files, write


def copied(path, mode="a"):
    """Writes to a directory of which a session has a copy. The test checks the original."""
    try: os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError: pass
    write(path, mode)
    raise OSError("a copy was written, unless the machine has changed")


@escape
def unit_of_systemd(): copied(home(".config/systemd/user/escaped.service"))
@escape
def autostart(): copied(home(".config/autostart/escaped.desktop"))
@escape
def program_on_the_path(): copied(home(".local/bin/git"))
@escape
def change_program_on_the_path(): copied(home(".local/bin/tool"))
@escape
def usercustomize(): copied(home(".local/lib/python3.11/site-packages/usercustomize.py"))
@escape
def user_site_pth(): copied(home(".local/lib/python3.11/site-packages/escaped.pth"))
@escape
def compiled_worker(): copied(home(".cache/turnstone/python/worker-cpython-311-kept"))
@escape
def shim_of_r(): copied(home(".cache/turnstone/r/kept.so"))
@escape
def settings_of_turnstone(): copied(home(".config/turnstone/sandbox.toml"))
@escape
def git_settings_of_the_user(): copied(home(".config/git/config"))
@escape
def settings_of_fish(): copied(home(".config/fish/config.fish"))
@escape
def cargo_program(): copied(home(".cargo/bin/cargo"))
@escape
def go_program(): copied(home("go/bin/gopls"))
@escape
def makevars_of_r(): copied(home(".R/Makevars"))
@escape
def profile(): return write(home(".profile"))
@escape
def profile_of_r(): return write(home(".Rprofile"))
@escape
def gitconfig(): return write(home(".gitconfig"))
@escape
def authorized_keys(): return write(home(".ssh/authorized_keys"))
@escape
def write_other_session(): copied(os.path.join(W["sessions"], "other-session", "transcript"))
@escape
def make_a_session(): copied(os.path.join(W["sessions"], "made", "transcript"))


@escape
def crontab():
    if not os.path.exists("/usr/bin/crontab"): return write("/var/spool/cron/crontabs/escaped")
    r = subprocess.run(["crontab", "-"], input="* * * * * true\n", capture_output=True, text=True)
    if r.returncode: raise OSError(r.stderr)
    return "there is a crontab"


@escape
def at_job():
    try: r = subprocess.run(["at", "now"], input="true\n", capture_output=True, text=True)
    except FileNotFoundError: return write("/var/spool/cron/atjobs/escaped")
    if r.returncode: raise OSError(r.stderr)
    return "there is a job"


@escape
def write_through_a_hard_link_of_a_setting():
    os.link(ws(".git/config"), ws("linked"))
    try: return write(ws("linked"))
    finally: os.unlink(ws("linked"))


@escape
def write_through_a_hard_link_of_a_hook():
    os.link(ws(".git/hooks/post-commit"), ws("linked"))
    try: return write(ws("linked"))
    finally: os.unlink(ws("linked"))


@escape
def write_a_hook_by_its_descriptor():
    fd = os.open(ws(".git/hooks/post-commit"), os.O_PATH)
    return write("/proc/self/fd/%d" % fd)


@escape
def write_a_hook_by_openat2():
    libc.syscall.restype = ctypes.c_long
    fd = libc.syscall(ctypes.c_long(437), ctypes.c_long(-100), ws(".git/hooks/pre-push").encode(), struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o755, 0), ctypes.c_long(24))
    if fd < 0: raise OSError(ctypes.get_errno(), "refused")
    return "made one"


@escape
def write_hooks_of_husky(): return write(ws(".husky/pre-commit"))
@escape
def write_settings_of_hooks(): return write(ws(".pre-commit-config.yaml"))
@escape
def write_program_of_a_filter(): return write(ws("tools/clean.sh"))
@escape
def replace_program_of_a_filter():
    with open(ws("clean.new"), "w") as f: f.write("escaped")
    try: os.rename(ws("clean.new"), ws("tools/clean.sh"))
    finally: os.path.exists(ws("clean.new")) and os.unlink(ws("clean.new"))
    return "replaced"
@escape
def rename_directory_of_a_filter():
    os.rename(ws("tools"), ws("tools2"))
    return "renamed"
@escape
def write_nested_editor_settings():
    os.mkdir(ws("vendor/lib/.vscode"))
    return write(ws("vendor/lib/.vscode/tasks.json"))
@escape
def make_editor_settings():
    os.makedirs(ws(".idea"))
    return "made"
@escape
def make_direnv_settings(): return write(ws(".envrc"))
@escape
def exchange_editor_settings():
    os.makedirs(ws("other"), exist_ok=True)
    try:
        if libc.renameat2(-100, ws("other").encode(), -100, ws(".vscode").encode(), 2) < 0: raise OSError(ctypes.get_errno(), "refused")
        return "exchanged"
    finally: os.listdir(ws("other")) or os.rmdir(ws("other"))


@escape
def make_settings_of_other_agents():
    made = []
    for name in "opencode.json", ".opencode", ".qwen", ".kiro", ".roo", ".zed", ".amazonq", ".windsurf", ".continue", ".crush.json", ".helix", ".junie", ".factory", ".trae", ".aider.conf.yml":
        try:
            os.mkdir(ws(name))
            made.append(name)
            os.rmdir(ws(name))
        except OSError: pass
    if made: return "made " + " ".join(made)
    raise OSError("none can be made")


# Git uses a directory with HEAD, objects and refs as a repository with its own settings, if the original
# repository has no readable HEAD.
@escape
def bare_repository_in_place_of_a_repository():
    write(ws("HEAD"), "x")
    os.unlink(ws("HEAD"))
    return "made HEAD"
@escape
def bare_repository_in_place_of_a_nested_one():
    write(ws("vendor/lib/HEAD"), "x")
    os.unlink(ws("vendor/lib/HEAD"))
    return "made HEAD"
@escape
def repository_above_a_nested_one():
    os.mkdir(ws("vendor/.git"))
    os.rmdir(ws("vendor/.git"))
    return "made"
@escape
def make_settings_of_mercurial():
    os.makedirs(ws(".hg"), exist_ok=True)
    try: return write(ws(".hg/hgrc"), "x")
    finally: remove(ws(".hg"))
@escape
def nameless_file_onto_a_setting():
    fd = os.open(ws(), os.O_TMPFILE | os.O_RDWR, 0o644)
    os.link("/proc/self/fd/%d" % fd, ws(".envrc"), follow_symlinks=True)
    os.unlink(ws(".envrc"))
    return "linked"
@escape
def nameless_file_onto_a_hook():
    fd = os.open(ws(), os.O_TMPFILE | os.O_RDWR, 0o644)
    os.link("/proc/self/fd/%d" % fd, ws(".git/hooks/pre-commit"), follow_symlinks=True)
    os.unlink(ws(".git/hooks/pre-commit"))
    return "linked"


@escape
def chattr():
    fd = os.open(home("note.txt"), os.O_RDONLY)
    flags = array.array("l", [0])
    fcntl.ioctl(fd, 0x80086601, flags)
    flags[0] ^= 0x40  # only "no dump": for other flags ext4 would have to rewrite the file, which may fail
    fcntl.ioctl(fd, 0x40086602, flags)
    return "changed"


@escape
def write_by_mmap():
    fd = os.open(home("note.txt"), os.O_RDONLY)
    m = mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    m[:4] = b"esca"
    return "wrote"


@escape
def write_by_own_memory():
    """Writes through /proc/self/mem to pages of a file that are mapped read-only."""
    fd = os.open(home("note.txt"), os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
    mem = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(mem, b"esca", at)
    return "wrote"


@escape
def freeze():
    fcntl.ioctl(os.open(W["home"], os.O_RDONLY), 0xC0045877, array.array("i", [0]))
    return "frozen"


# ---------------------------------------------------------------- files that stay, and what all programs share


def with_rights_of_its_owner(make):
    path = ws("owner")
    try:
        make(path)
        if not os.stat(path).st_mode & stat.S_ISUID: raise OSError("it has not got the bit")
        return "made one"
    finally: os.path.exists(path) and os.unlink(path)


@escape
def program_with_the_rights_of_its_owner():
    def make(path):
        open(path, "w").close()
        os.chmod(path, 0o4755)
    return with_rights_of_its_owner(make)
@escape
def program_with_the_rights_of_its_owner_by_a_descriptor(): return with_rights_of_its_owner(lambda path: os.fchmod(os.open(path, os.O_CREAT | os.O_RDWR, 0o755), 0o4755))
@escape
def program_with_the_rights_of_its_owner_when_it_is_made(): return with_rights_of_its_owner(lambda path: os.open(path, os.O_CREAT | os.O_RDWR, 0o4755))
@escape
def program_with_the_rights_of_its_owner_by_mknod(): return with_rights_of_its_owner(lambda path: os.mknod(path, stat.S_IFREG | 0o4755))
@escape
def program_with_the_rights_of_its_owner_without_a_name():
    def make(path):
        fd = os.open(ws(), os.O_TMPFILE | os.O_RDWR, 0o4755)
        os.link("/proc/self/fd/%d" % fd, path, follow_symlinks=True)
    return with_rights_of_its_owner(make)


@escape
def lease_on_a_file_of_others():
    """A lease would make programs outside wait for its holder."""
    fd = os.open(home("note.txt"), os.O_RDONLY)
    for kind in fcntl.F_WRLCK, fcntl.F_RDLCK:
        try: fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
        except OSError: continue
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return "a lease"
    raise OSError("none")


@escape
def asynchronous_requests_of_the_machine():
    context = ctypes.c_ulong()
    call("io_setup", 1000, ctypes.byref(context))
    return "a thousand"


def take(what, most):
    """Allocates up to most objects, and frees them all."""
    taken = []
    try:
        for _ in range(most): taken.append(what())
        return "took %d" % most
    finally:
        for fd in taken: os.close(fd)


@escape
def terminals_of_the_machine(): return take(lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY), 300)
@escape
def watchers_of_the_user():
    def watcher():
        fd = libc.inotify_init()
        if fd < 0: raise OSError(ctypes.get_errno(), "no more")
        return fd
    with open("/proc/sys/fs/inotify/max_user_instances") as f: most = int(f.read())
    return take(watcher, max(2, most // 3))


@escape
def limits_of_process_1():
    import resource
    resource.prlimit(1, resource.RLIMIT_NOFILE, resource.prlimit(1, resource.RLIMIT_NOFILE))
    return "changed"
@escape
def limits_of_a_thread_of_process_1():
    import resource
    for t in os.listdir("/proc/1/task"):
        try: resource.prlimit(int(t), resource.RLIMIT_CORE, (0, 0))
        except OSError: continue
        return "changed by " + t
    raise OSError("of none")


@escape
def whiteout_in_place_of_a_hook():
    if libc.renameat2(-100, ws(".git/hooks/post-commit").encode(), -100, ws("moved").encode(), 4) < 0: raise OSError(ctypes.get_errno(), "refused")
    return "moved"
@escape
def exchange_hooks():
    os.makedirs(ws("other"), exist_ok=True)
    try:
        if libc.renameat2(-100, ws("other").encode(), -100, ws(".git/hooks").encode(), 2) < 0: raise OSError(ctypes.get_errno(), "refused")
        return "exchanged"
    finally: os.listdir(ws("other")) or os.rmdir(ws("other"))
@escape
def nameless_file_by_its_descriptor():
    fd = os.open(ws(), os.O_TMPFILE | os.O_RDWR, 0o644)
    if libc.linkat(fd, b"", -100, ws(".helix").encode(), 0x1000) < 0: raise OSError(ctypes.get_errno(), "refused")
    os.unlink(ws(".helix"))
    return "linked"


@escape
def hook_by_a_directory_of_another_process():
    ready, end = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(end, bytes([os.open(ws(".git/hooks"), os.O_RDONLY)]))
        signal.pause()
    try:
        taken = call("pidfd_getfd", call("pidfd_open", pid, 0), os.read(ready, 1)[0], 0)
        fd = os.open("pre-commit", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=taken)
        return "made one"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def by_an_exchange_of_the_text(exchange):
    """Another process changes the path during the call."""
    try:
        os.close(os.open(ws(".helix"), os.O_WRONLY | os.O_CREAT, 0o644))
        os.unlink(ws(".helix"))
        return "made one without it"
    except OSError: pass
    text = mmap.mmap(-1, 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(text))
    plain, kept = ws("plain1").encode() + b"\0", ws(".helix").encode() + b"\0"
    text[:len(plain)] = plain
    pid = os.fork()
    if not pid:
        while True:
            exchange(at, kept)
            exchange(at, plain)
    try:
        for _ in range(2000):
            fd = libc.open(ctypes.c_void_p(at), os.O_WRONLY | os.O_CREAT, 0o644)
            if fd >= 0: os.close(fd)
            if os.path.lexists(ws(".helix")):
                os.unlink(ws(".helix"))
                return "made one"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.path.exists(ws("plain1")) and os.unlink(ws("plain1"))
    raise OSError("never")


@escape
def exchange_of_a_path_in_shared_memory(): return by_an_exchange_of_the_text(lambda at, text: ctypes.memmove(at, text, len(text)))


@escape
def exchange_of_a_path_by_another_process():
    parent = os.getpid()
    def poke(at, text):
        own = ctypes.create_string_buffer(text, len(text))
        local = struct.pack("QQ", ctypes.addressof(own), len(text))
        call("process_vm_writev", parent, local, 1, struct.pack("QQ", at, len(text)), 1, 0)
    return by_an_exchange_of_the_text(poke)


@escape
def write_home(): return write(home("note.txt"))
@escape
def create_in_home(): return write(home("new.txt"))
@escape
def write_bashrc(): return write(home(".bashrc"))
@escape
def write_usr(): return write("/usr/escaped")
@escape
def write_etc(): return write("/etc/escaped")
@escape
def write_var(): return write("/var/escaped")
@escape
def write_opt(): return write("/opt/escaped")
@escape
def write_outside_directory(): return write(os.path.join(W["outside"], "file"))
@escape
def write_git_hook(): return write(ws(".git/hooks/pre-commit"))
@escape
def change_git_hook(): return write(ws(".git/hooks/post-commit"))
@escape
def write_git_config(): return write(ws(".git/config"))
@escape
def write_git_config_by_git():
    r = subprocess.run(["git", "config", "core.fsmonitor", "touch escaped"], cwd=W["workspace"], capture_output=True, text=True)
    if r.returncode: raise OSError(r.stderr)
    return "git config wrote"
@escape
def write_git_attributes(): return write(ws(".git/info/attributes"))
@escape
def write_submodule_hook(): return write(ws(".git/modules/sub/hooks/post-checkout"))
@escape
def write_submodule_config(): return write(ws(".git/modules/sub/config"))
@escape
def write_deep_submodule_hook(): return write(ws(".git/modules/deep/er/hooks/post-checkout"))
@escape
def change_submodule_pointer(): return write(ws("sub/.git"), "w")
@escape
def write_hooks_path(): return write(ws(".husky/pre-commit"))


@escape
def rename_git():
    os.rename(ws(".git"), ws("git2"))
    return "renamed"


@escape
def rename_git_info():
    os.rename(ws(".git/info"), ws(".git/info2"))
    return "renamed"


@escape
def rename_hooks():
    os.rename(ws(".git/hooks"), ws(".git/hooks2"))
    return "renamed"


@escape
def replace_config():
    with open(ws(".git/config.new"), "w") as f: f.write("[core]\nfsmonitor = x\n")
    try: os.rename(ws(".git/config.new"), ws(".git/config"))
    finally: os.path.exists(ws(".git/config.new")) and os.unlink(ws(".git/config.new"))
    return "replaced"


@escape
def link_onto_hook():
    os.link(ws("README"), ws(".git/hooks/pre-push"))
    return "linked"


@escape
def symlink_onto_hook():
    os.symlink(ws("README"), ws(".git/hooks/pre-push"))
    return "linked"


@escape
def remove_hook():
    os.unlink(ws(".git/hooks/post-commit"))
    return "removed"


@escape
def write_nested_hook(): return write(ws("vendor/lib/.git/hooks/pre-commit"))


@escape
def rename_parent_of_nested_repository():
    os.rename(ws("vendor/lib"), ws("vendor/lib2"))
    return "renamed"


@escape
def rename_grandparent_of_nested_repository():
    os.rename(ws("vendor"), ws("vendor2"))
    return "renamed"


@escape
def write_editor_settings(): return write(ws(".vscode/settings.json"))
@escape
def write_mcp_settings(): return write(ws(".mcp.json"))


@escape
def write_by_a_symlink_out():
    os.path.islink(ws("out")) or os.symlink(W["outside"], ws("out"))
    try: return write(ws("out/file"))
    finally: os.unlink(ws("out"))


@escape
def write_by_dotdot(): return write(ws("..", "note.txt"))


@escape
def write_by_a_directory_descriptor():
    d = os.open(W["home"], os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("note.txt", os.O_WRONLY | os.O_APPEND, dir_fd=d)
    os.write(fd, b"escaped")
    return "wrote"


@escape
def write_by_proc_fd():
    fd = os.open(home("note.txt"), os.O_RDONLY)
    return write("/proc/self/fd/%d" % fd)


@escape
def truncate():
    os.truncate(home("note.txt"), 0)
    return "truncated"


@escape
def chmod():
    os.chmod(home("note.txt"), 0o777)
    return "changed"


@escape
def utime():
    os.utime(home("note.txt"), (1, 1))
    return "changed"


@escape
def setxattr():
    os.setxattr(home("note.txt"), "user.escaped", b"1")
    return "changed"


@escape
def read_write_open():
    fd = os.open(home("note.txt"), os.O_RDWR)
    os.write(fd, b"escaped")
    return "wrote"


@escape
def unlink():
    os.unlink(home("note.txt"))
    return "removed"


@escape
def rename_out():
    with open(ws("mine"), "w") as f: f.write("escaped")
    try: os.rename(ws("mine"), home("note.txt"))
    finally: os.path.exists(ws("mine")) and os.unlink(ws("mine"))
    return "renamed"


@escape
def remount():
    call("mount", None, W["home"].encode(), None, 32 | 4096, None)
    return write(home("note.txt"))


@escape
def mount_setattr():
    attr = struct.pack("QQQQ", 0, 1, 0, 0)
    call("mount_setattr", -100, b"/", 0x8000, attr, 32)
    return write(home("note.txt"))


@escape
def open_tree():
    fd = call("open_tree", -100, W["home"].encode(), 1)
    return "fd %d" % fd


@escape
def fsopen(): return "fd %d" % call("fsopen", b"tmpfs", 0)
@escape
def mount_tmpfs(): return str(call("mount", b"none", ws().encode(), b"tmpfs", 0, None))
@escape
def mount_proc(): return str(call("mount", b"proc", b"/proc", b"proc", 0, None))


@escape
def chroot():
    call("chroot", W["workspace"].encode())
    return "done"


@escape
def pivot_root(): return str(call("pivot_root", W["workspace"].encode(), W["workspace"].encode()))


@escape
def setuid_program():
    path = ws("suid")
    subprocess.run(["cp", "/bin/true", path], check=True)
    try:
        r = subprocess.run(["sudo", "-n", "true"], capture_output=True, text=True)
        if r.returncode == 0: return "sudo works"
        raise OSError(r.stderr)
    except FileNotFoundError as e:
        raise OSError("no sudo")
    finally: os.unlink(path)


@escape
def block_devices():
    for n in os.listdir("/dev"):
        if stat.S_ISBLK(os.stat("/dev/" + n).st_mode): return "there is /dev/" + n
    return read("/dev/vda")


@escape
def device_of_memory(): return read("/dev/mem")
@escape
def device_of_the_kernel_log(): return read("/dev/kmsg")
@escape
def device_of_virtual_machines(): return "opened %d" % os.open("/dev/kvm", os.O_RDWR)


@escape
def mknod():
    os.mknod(ws("device"), stat.S_IFBLK | 0o600, os.makedev(254, 0))
    return read(ws("device"))


@escape
def write_device_directory(): return write("/dev/escaped")
@escape
def write_run(): return write("/run/escaped")
@escape
def write_sys(): return write("/sys/kernel/mm/transparent_hugepage/enabled")
@escape
def write_cgroup():
    os.mkdir("/sys/fs/cgroup/escaped")
    return "made"

# ---------------------------------------------------------------- processes

@escape
def signal_outside():
    os.kill(W["victim"], signal.SIGTERM)
    return "sent"


@escape
def signal_by_the_owner_of_a_pipe():
    there, here = os.pipe()
    fcntl.fcntl(there, fcntl.F_SETOWN, W["victim"])
    fcntl.fcntl(there, 10, signal.SIGSTOP)  # F_SETSIG
    fcntl.fcntl(there, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(here, b"x")
    raise OSError("the machine outside shows whether it came")
@escape
def signal_everything():
    if os.getpid() != 1 and os.path.exists("/proc/%d" % W["victim"]): return "sees the victim's number"
    raise OSError("no such process")


@escape
def ptrace_outside(): return str(call("ptrace", 16, W["victim"], 0, 0))
@escape
def memory_of_a_process_outside(): return read("/proc/%d/mem" % W["victim"])


def vm_read(pid):
    buf = ctypes.create_string_buffer(64)
    class Iov(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    maps = read("/proc/%d/maps" % pid) if pid != W["victim"] else "400000-"
    at = int(maps.split("-")[0], 16)
    local, remote = Iov(ctypes.addressof(buf), 64), Iov(at, 64)
    return "read %d" % call("process_vm_readv", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)


@escape
def vm_readv_outside(): return vm_read(W["victim"])
@escape
def pidfd_outside(): return "fd %d" % call("pidfd_open", W["victim"], 0)
@escape
def ptrace_of_process_1(): return str(call("ptrace", 16, 1, 0, 0))


@escape
def kill_process_1():
    os.kill(1, signal.SIGKILL)
    os.kill(1, signal.SIGSTOP)
    os.kill(1, signal.SIGTERM)
    with open("/proc/1/stat") as f: state = f.read().rsplit(")", 1)[1].split()[0]
    if state in "TtZX": return "it is " + state
    raise OSError("it goes on")


@escape
def memory_of_process_1(): return read("/proc/1/mem")
@escape
def maps_of_process_1(): return read("/proc/1/maps") or "read"
@escape
def vm_readv_of_process_1(): return vm_read(1)
@escape
def descriptors_of_process_1(): return str(os.listdir("/proc/1/fd"))


@escape
def take_descriptor_of_process_1():
    p = call("pidfd_open", 1, 0)
    return "took %d" % call("pidfd_getfd", p, 3, 0)


@escape
def inherited_descriptors():
    extra = [n for n in os.listdir("/proc/self/fd") if int(n) > 4]
    leads = [os.readlink("/proc/self/fd/" + n) for n in extra if os.path.exists("/proc/self/fd/" + n)]
    leads = [l for l in leads if not l.startswith("/proc/")]
    if leads: return str(leads)
    raise OSError("none")


@escape
def setns():
    fd = os.open("/proc/1/ns/mnt", os.O_RDONLY)
    call("setns", fd, 0)
    return "entered"


@escape
def setns_own():
    fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    call("setns", fd, 0)
    return "entered"


@escape
def user_namespace_by_unshare(): return str(call("unshare", 0x10000000))
@escape
def mount_namespace_by_unshare(): return str(call("unshare", 0x20000))


@escape
def user_namespace_by_clone():
    pid = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    return "made %d" % pid


@escape
def user_namespace_by_clone3():
    args = struct.pack("QQQQQQQQQQQ", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", args, len(args))
    if pid == 0: os._exit(0)
    return "made %d" % pid


@escape
def nice_down():
    os.nice(-5)
    return "done"


@escape
def sysctl(): return write("/proc/sys/kernel/core_pattern", "w")
@escape
def sysctl_of_the_namespace(): return write("/proc/sys/kernel/hostname", "w")
@escape
def sysrq(): return write("/proc/sysrq-trigger", "w")


@escape
def capabilities():
    for line in open("/proc/self/status"):
        if line.startswith(("CapEff", "CapPrm", "CapBnd", "CapAmb")) and int(line.split()[1], 16): return line
        if line.startswith("NoNewPrivs") and line.split()[1] != "1": return line
    raise OSError("none")


@escape
def oom_score_of_process_1(): return write("/proc/1/oom_score_adj", "w")


@escape
def every_signal_to_process_1():
    for n in list(range(1, 65)) * 20: # some arrive while it is in the handler of another
        try: os.kill(1, n)
        except OSError: pass
    with open("/proc/1/stat") as f: state = f.read().rsplit(")", 1)[1].split()[0]
    if state in "TtZX": return "it is " + state
    raise OSError("it goes on")


@escape
def ptrace_of_a_thread_of_process_1():
    for t in os.listdir("/proc/1/task"):
        try: return "attached to %s: %s" % (t, call("ptrace", 0x4206, int(t), 0, 0))
        except OSError: continue
    raise OSError("to none")


@escape
def files_of_the_threads_of_process_1():
    for t in os.listdir("/proc/1/task"):
        for name in "environ", "mem", "maps", "fd", "root/etc/passwd", "cwd", "exe", "auxv", "stack", "io":
            path = "/proc/1/task/%s/%s" % (t, name)
            try: return "%s: %s" % (path, os.listdir(path) if name == "fd" else read(path))
            except OSError: continue
    raise OSError("of none")


@escape
def descriptors_of_process_1_by_number():
    p = call("pidfd_open", 1, 0)
    for n in range(64):
        try: return "took %d" % call("pidfd_getfd", p, n, 0)
        except OSError: continue
    raise OSError("none")


@escape
def kcmp_with_process_1(): return str(call("kcmp", os.getpid(), 1, 2, 0, 0))
@escape
def advice_to_process_1(): return str(call("process_madvise", call("pidfd_open", 1, 0), struct.pack("QQ", 0x400000, 4096), 1, 21, 0))


@escape
def write_memory_of_process_1():
    buf = ctypes.create_string_buffer(8)
    local, remote = struct.pack("QQ", ctypes.addressof(buf), 8), struct.pack("QQ", 0x400000, 8)
    return str(call("process_vm_writev", 1, local, 1, remote, 1, 0))


@escape
def namespaces_of_process_1():
    for n in os.listdir("/proc/1/ns"):
        try: return "opened %d" % os.open("/proc/1/ns/" + n, os.O_RDONLY)
        except OSError: continue
    raise OSError("none")


@escape
def enter_own_namespaces():
    for n in os.listdir("/proc/self/ns"):
        fd = os.open("/proc/self/ns/" + n, os.O_RDONLY)
        try: return "entered %s: %d" % (n, call("setns", fd, 0))
        except OSError: continue
    raise OSError("none")


@escape
def namespaces_of_process_1_by_its_pidfd():
    fd = call("pidfd_open", 1, 0)
    for request in range(1, 11):
        try: return str(fcntl.ioctl(fd, 0xff00 + request, 0))
        except OSError: continue
    raise OSError("none")
@escape
def other_mounts_of_the_machine():  # the namespaces of mounts have an order
    fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    for request in 0x8010b70b, 0x8010b70c:
        try: return str(fcntl.ioctl(fd, request, bytearray(16)))
        except OSError: continue
    raise OSError("none")
@escape
def enter_by_a_pidfd(): return str(call("setns", call("pidfd_open", os.getpid(), 0), 0x20000 | 0x40000000))


@escape
def parent_of_the_user_namespace():
    own = os.open("/proc/self/ns/user", os.O_RDONLY)
    fd = call("ioctl", own, 0xB702, 0)  # NS_GET_PARENT
    return "opened %d" % fd


@escape
def namespaces_by_unshare():
    for flag in 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80:
        try: return "%#x: %d" % (flag, call("unshare", flag))
        except OSError: continue
    raise OSError("none")


@escape
def map_of_user_numbers(): return write("/proc/self/uid_map", "w")
@escape
def host_name(): return str(call("sethostname", b"escaped", 7))


@escape
def core_pattern_of_the_machine(): return write("/proc/sys/kernel/core_pattern", "r+")
@escape
def module_helper(): return write("/proc/sys/kernel/modprobe", "r+")
@escape
def binary_formats(): return write("/proc/sys/fs/binfmt_misc/register", "w")
@escape
def drop_caches(): return write("/proc/sys/vm/drop_caches", "w")
@escape
def forwarding(): return write("/proc/sys/net/ipv4/ip_forward", "w")
@escape
def debug_filesystem(): return (str(os.listdir("/sys/kernel/debug")) + write("/sys/kernel/debug/escaped"))
@escape
def pinned_programs(): return write("/sys/fs/bpf/escaped")
@escape
def uevent_helper(): return write("/sys/kernel/uevent_helper", "w")

# ---------------------------------------------------------------- sockets

def to(address, family=socket.AF_UNIX, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.settimeout(30)
    if kind == socket.SOCK_DGRAM:
        s.sendto(b"escaped", address)
        return "sent to %r" % (address,)
    s.connect(address)
    try: s.sendall(b"escaped")
    except BrokenPipeError: pass  # the other end has already closed
    return "connected to %r" % (address,)


@escape
def abstract_socket_of_the_machine(): return to("\0" + W["abstract"])
@escape
def socket_in_home(): return to(home("host.sock"))
@escape
def socket_in_workspace(): return to(ws("host.sock"))
@escape
def socket_in_outside_directory(): return to(os.path.join(W["outside"], "host.sock"))


@escape
def socket_in_tmp(): return to(W["tmp_socket"])
@escape
def socket_in_var_tmp(): return to(W["var_tmp_socket"])


def runtime(*p): return os.path.join(W["runtime"], *p)


@escape
def bus_of_the_user(): return to(runtime("bus"))
@escape
def manager_of_the_user(): return to(runtime("systemd/private"))
@escape
def agent_of_gpg(): return to(runtime("gnupg/S.gpg-agent"))
@escape
def agent_of_ssh(): return to(runtime("openssh_agent"))
@escape
def display_of_wayland(): return to(runtime("wayland-0"))
@escape
def sound(): return to(runtime("pulse/native"))
@escape
def containers_of_podman(): return to(runtime("podman/podman.sock"))
@escape
def own_daemon(): return to(runtime("turnstone/daemon.sock"))
@escape
def cookie_in_the_runtime_directory(): return read(runtime("xauth_cookie"))
@escape
def socket_in_the_runtime_directory():
    os.makedirs(runtime("made"))
    return "made"


@escape
def services_of_the_machine():
    for path in "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/podman/podman.sock", "/run/systemd/private", "/run/udev/control", "/run/snapd.socket", "/tmp/.X11-unix/X0", "/run/nscd/socket", "/run/cups/cups.sock":
        try: return to(path)
        except OSError: continue
    for name in "/tmp/.X11-unix/X0", "/tmp/dbus-escaped", "/org/freedesktop/systemd1/notify", "/containerd-shim/escaped.sock":
        try: return to("\0" + name)
        except OSError: continue
    raise OSError("none")


@escape
def socket_by_a_bind_elsewhere():
    """Uses another name in the workspace for a socket file of the machine."""
    os.link(ws("host.sock"), ws("linked.sock"))
    try: return to(ws("linked.sock"))
    finally: os.unlink(ws("linked.sock"))


@escape
def socket_after_a_rename():
    os.rename(ws("host.sock"), ws("renamed.sock"))
    try: return to(ws("renamed.sock"))
    finally: os.rename(ws("renamed.sock"), ws("host.sock"))


@escape
def socket_from_another_thread_and_root():
    """Connects while the directory is exchanged for one of the machine."""
    os.makedirs(ws("swap-a"), exist_ok=True)
    s = socket.socket(socket.AF_UNIX); s.bind(ws("swap-a/host.sock")); s.listen(1000)  # no program accepts, and each takes 10 ms of 2 s
    os.symlink(W["home"], ws("swap-b"))
    pid = os.fork()
    if pid == 0:
        while True: libc.renameat2(-100, ws("swap-a").encode(), -100, ws("swap-b").encode(), 2)
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            c = socket.socket(socket.AF_UNIX)
            try: c.connect(ws("swap-a/host.sock"))
            except OSError: continue
            c.settimeout(0.01)
            try:
                if c.recv(10): return "connected"
            except OSError: pass
            finally: c.close()
        raise OSError("it never won")
    finally:
        os.kill(pid, 9); os.waitpid(pid, 0)
        for n in "swap-a", "swap-b":
            if os.path.islink(ws(n)): os.unlink(ws(n))
            elif os.path.isdir(ws(n)): subprocess.run(["rm", "-rf", ws(n)])


@escape
def socket_by_a_relative_path():
    os.chdir(W["home"])
    return to("host.sock")


@escape
def socket_by_a_symlink():
    os.path.islink(ws("sock")) or os.symlink(home("host.sock"), ws("sock"))
    try: return to(ws("sock"))
    finally: os.unlink(ws("sock"))


@escape
def socket_by_proc_self_fd():
    fd = os.open(home("host.sock"), os.O_PATH)
    return to("/proc/self/fd/%d" % fd)


@escape
def socket_by_proc_self_root(): return to("/proc/self/root" + home("host.sock"))


@escape
def socket_seqpacket(): return to(ws("seqpacket.sock"), kind=socket.SOCK_SEQPACKET)
@escape
def datagram_socket(): return to(ws("datagram.sock"), kind=socket.SOCK_DGRAM)


@escape
def datagram_by_a_raw_socket():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_RAW)
    s.sendto(b"escaped", ws("datagram.sock"))
    return "sent"


@escape
def datagram_by_a_raw_pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    a.sendto(b"escaped", ws("datagram.sock"))
    return "sent"


@escape
def datagram_by_a_pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"escaped", ws("datagram.sock"))
    return "sent"


@escape
def sendmsg_with_a_name():
    a, b = socket.socketpair()
    a.sendmsg([b"escaped"], [], 0, ws("host.sock"))
    raise OSError("went to its pair") if b.recv(10) else OSError("went nowhere")


@escape
def socket_race():
    """A second thread changes the address while the first connects."""
    import threading
    inside = "\0race-" + os.urandom(8).hex()  # without a sandbox the whole machine shares these names
    server = socket.socket(socket.AF_UNIX); server.bind(inside); server.listen(500)
    good = struct.pack("H", 1) + inside.encode()
    bad = struct.pack("H", 1) + ws("host.sock").encode() + b"\0"
    size = max(len(good), len(bad))
    buf = ctypes.create_string_buffer(good.ljust(size, b"\0"), size)
    stop = []
    def flip():
        while not stop:
            ctypes.memmove(buf, bad.ljust(size, b"\0"), size)
            ctypes.memmove(buf, good.ljust(size, b"\0"), size)
    flipper = threading.Thread(target=flip)
    flipper.start()
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as s:
                libc.connect(s.fileno(), buf, len(bad))
                try:
                    if s.getpeername() and b"host.sock" in str(s.getpeername()).encode(): return "connected"
                except OSError: pass
        raise OSError("it never won")
    finally:
        stop.append(1)
        flipper.join()


@escape
def loopback_tcp(): return to(("127.0.0.1", W["tcp"]), socket.AF_INET)
@escape
def loopback_tcp_by_ipv6(): return to(("::ffff:127.0.0.1", W["tcp"]), socket.AF_INET6)
@escape
def loopback_tcp_by_name(): return to((socket.gethostname(), W["tcp"]), socket.AF_INET)
@escape
def loopback_udp(): return to_udp("127.0.0.1", W["udp"])


def to_udp(host, port, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_IP, 11, 1)  # IP_RECVERR: if no program listens at the port, the error comes at once
    s.settimeout(30)
    s.sendto(b"escaped", (host, port))
    return s.recv(10).decode()


# These probes connect to other machines. They run only where no network is available.
def away(f):
    def run():
        links = [l.split(":")[0].strip() for l in open("/proc/net/dev") if ":" in l]
        if links != ["lo"] or len(open("/proc/net/route").readlines()) > 1:
            sys.exit("this probe must not run here: the network has %s" % links)
        return f()
    run.__name__ = f.__name__
    return escape(run)


@away
def metadata_address(): return to(("169.254.169.254", 80), socket.AF_INET)
@away
def public_tcp(): return to(("192.0.2.1", 443), socket.AF_INET)
@away
def foreign_dns(): return to_udp("192.0.2.53", 53)
@away
def udp_to_a_lan(): return to_udp("10.255.255.1", 9)
@away
def ipv6(): return to(("2001:db8::1", 443), socket.AF_INET6)
@away
def names_are_not_resolved(): return str(socket.getaddrinfo("turnstone.invalid", 80))


@escape
def raw_socket(): return str(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
@escape
def packet_socket(): return str(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
@escape
def vsock(): return str(socket.socket(40, socket.SOCK_STREAM))
@escape
def netlink_audit(): return str(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
@escape
def netlink_sock_diag(): return str(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4))
@escape
def alg(): return str(socket.socket(38, socket.SOCK_SEQPACKET))
@escape
def bluetooth(): return str(socket.socket(31, socket.SOCK_RAW, 1))
@escape
def every_other_family():
    for family in range(3, 60):
        if family in (10, 16): continue
        for kind in 1, 2, 3, 5:
            for protocol in 0, 1:
                try: return "family %d: %s" % (family, socket.socket(family, kind, protocol))
                except OSError: continue
    raise OSError("none")
@escape
def every_other_netlink():
    for protocol in range(1, 32):
        try: return "protocol %d: %s" % (protocol, socket.socket(16, 3, protocol))
        except OSError: continue
    raise OSError("none")
@escape
def every_protocol_to_the_loopback_of_the_machine():
    for kind, protocol in (1, 262), (1, 132), (5, 132), (2, 136), (2, 1), (3, 255), (1, 6), (6, 33):
        try: s = socket.socket(socket.AF_INET, kind, protocol)
        except OSError: continue
        s.settimeout(30)
        try:
            s.connect(("127.0.0.1", W["tcp"]))
            s.sendall(b"escaped")
            return "protocol %d: %s" % (protocol, s.recv(10))
        except OSError: continue
    raise OSError("none")
@escape
def tcp_fast_open():
    s = socket.socket()
    s.settimeout(30)
    s.sendto(b"escaped", 0x20000000, ("127.0.0.1", W["tcp"]))
    return s.recv(10).decode()
@escape
def disconnect_and_connect_elsewhere():
    server = socket.create_server(("127.0.0.1", 0))
    s = socket.create_connection(server.getsockname())
    if libc.connect(s.fileno(), ctypes.create_string_buffer(16), 16): raise OSError(ctypes.get_errno(), "it stays connected")
    s.connect(("127.0.0.1", W["tcp"]))
    return "connected"
@escape
def bind_a_port_of_the_machine():
    s = socket.socket(); s.bind(("0.0.0.0", 80))
    return "bound"
@escape
def io_uring_by_its_other_calls():
    for name in "io_uring_enter", "io_uring_register":
        try: return str(call(name, 0, 0, 0, 0, None, 0))
        except OSError as e:
            if e.errno != errno.ENOSYS: return "%s is there: %s" % (name, e)
    raise OSError("none is there")
@escape
def io_uring(): return str(call("io_uring_setup", 8, ctypes.create_string_buffer(120)))


@escape
def change_the_network():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    body = struct.pack("BBHiII", 0, 0, 0, 1, 0, 1)
    s.send(struct.pack("IHHII", 16 + len(body), 16, 5, 1, 0) + body)
    code = struct.unpack("i", s.recv(4096)[16:20])[0]
    if code: raise OSError(-code, os.strerror(-code))
    return "the loopback is down"

# ---------------------------------------------------------------- kernel and terminal

@escape
def sysv_memory():
    i = call("shmget", W["shm"], 0, 0)
    libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(i, None, 0o10000), 30).decode("latin-1")


@escape
def posix_memory(): return read("/dev/shm/" + W["posix"])
@escape
def keyring(): return str(call("keyctl", 0, -3, 0))
@escape
def bpf(): return str(call("bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 8, 1)), 16))
@escape
def perf(): return str(call("perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112), 0, -1, -1, 0))
@escape
def userfaultfd(): return str(call("userfaultfd", 1))
@escape
def kernel_log(): return str(call("syslog", 10, None, 0))
@escape
def add_key(): return str(call("add_key", b"user", b"escaped", b"x", 1, -4))
@escape
def request_key(): return str(call("request_key", b"user", b"escaped", b"", -4))
@escape
def sysv_queues(): return str(call("msgget", W["shm"], 0))
@escape
def sysv_semaphores(): return str(call("semget", W["shm"], 0, 0))
@escape
def posix_queue():
    fd = call("mq_open", W["posix"].encode(), 0, 0, None)
    return "opened %d" % fd
@escape
def filter_of_packets():
    for cmd in range(0, 40):
        try: return "%d: %d" % (cmd, call("bpf", cmd, ctypes.create_string_buffer(128), 128))
        except OSError as e:
            if e.errno != errno.EPERM: return "bpf %d: %s" % (cmd, e)
    raise OSError("none")
@escape
def watch_all_files(): return str(call("fanotify_init", 0x200, 0))
@escape
def accounting(): return str(call("acct", ws("acct").encode()))
@escape
def swap(): return str(call("swapon", ws("swap").encode(), 0))
@escape
def quotas(): return str(call("quotactl", 0x800002 << 8, b"/dev/vda", 0, None))
@escape
def clock(): return str(call("clock_settime", 0, struct.pack("qq", 1, 1)))
@escape
def day(): return str(call("settimeofday", struct.pack("qq", 1, 1), None))
@escape
def restart_of_the_machine(): return str(call("reboot", 0xfee1dead, 672274793, 0, None))
@escape
def another_kernel(): return str(call("kexec_load", 0, 0, None, 0))
@escape
def remove_a_module(): return str(call("delete_module", b"escaped", 0x800))
@escape
def hang_up(): return str(call("vhangup"))
@escape
def filesystem_by_its_picker(): return str(call("fspick", -100, b"/", 0))
@escape
def tree_with_attributes(): return str(call("open_tree_attr", -100, b"/", 1, struct.pack("QQQQ", 0, 1, 0, 0), 32))
@escape
def filter_that_answers_calls():
    """A second listener could answer calls instead of the first."""
    if libc.prctl(38, 1, 0, 0, 0): raise OSError("no")
    allow = struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
    prog = ctypes.create_string_buffer(allow)
    fprog = struct.pack("HxxxxxxQ", 1, ctypes.addressof(prog))
    n = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    libc.syscall.restype = ctypes.c_long
    fd = libc.syscall(ctypes.c_long(n), ctypes.c_long(1), ctypes.c_long(8), fprog)
    if fd < 0: raise OSError(ctypes.get_errno(), "refused")
    return "has a listener"
@escape
def program_in_memory_has_no_more_rights():
    fd = os.memfd_create("x", 0)
    with open("/bin/cat", "rb") as f: os.write(fd, f.read())
    r = subprocess.run(["/proc/self/fd/%d" % fd, home(".ssh/id_ed25519")], pass_fds=[fd], capture_output=True, text=True)
    if r.returncode: raise OSError(r.stderr)
    return r.stdout
@escape
def traced_child_is_confined():
    """A tracer changes the call of its child after the filter has checked it."""
    script = """
import os, sys
os.kill(os.getpid(), 19)
open(sys.argv[1], "a").write("escaped")
"""
    p = subprocess.Popen([sys.executable, "-c", script, home("note.txt")], stderr=subprocess.PIPE, text=True)
    call("ptrace", 0x4206, p.pid, 0, 0x1)
    os.waitpid(p.pid, 0x40000000)
    os.kill(p.pid, 18)
    for _ in range(100000):
        try: call("ptrace", 24, p.pid, 0, 0)
        except OSError: break
        pid, status = os.waitpid(p.pid, 0x40000000)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status): break
    raise OSError(p.stderr.read()[-60:])
@escape
def console_of_the_machine():
    for request in 0x541C, 0x541D, 0x4B3A, 0x5606:
        try: return "%#x: %r" % (request, fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), request, b"\x03" + b"\0" * 63))
        except OSError: continue
    raise OSError("none")
@escape
def kernel_module(): return str(call("init_module", b"x", 1, b""))


@escape
def other_terminal():
    found = [n for n in os.listdir("/dev/pts") if n.isdigit()]
    if found: return "sees %s" % found
    return write("/dev/pts/0")


@escape
def type_into_own_terminal():
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")
    return "typed"


@escape
def discipline_of_own_terminal():  # loads a module of the kernel
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY), 0x5423, array.array("i", [0]))
    return "set"
@escape
def type_with_high_bits():
    libc.syscall.restype = ctypes.c_long
    n = {"x86_64": 16, "aarch64": 29}[platform.machine()]
    fd = os.open("/dev/tty", os.O_RDWR)
    r = libc.syscall(ctypes.c_long(n), ctypes.c_long(fd), ctypes.c_long(0x100005412), ctypes.create_string_buffer(b"x"))
    if r < 0: raise OSError(ctypes.get_errno(), "refused")
    return "typed"


@escape
def x32_entry():
    if platform.machine() != "x86_64": raise OSError("no such entry")
    libc.syscall.restype = ctypes.c_long
    r = libc.syscall(ctypes.c_long(0x40000000 + 165), b"none", b"/mnt", b"tmpfs", ctypes.c_long(0), None)
    if r < 0: raise OSError(ctypes.get_errno(), "refused")
    return "mounted"

# ---------------------------------------------------------------- ordinary things

def sh(*args, **kw):
    r = subprocess.run(args, capture_output=True, text=True, **kw)
    if r.returncode: raise Exception("%s: %s %s" % (args, r.stdout[-1500:], r.stderr[-1500:]))
    return r.stdout


@ordinary
def memfd_and_exec():
    fd = os.memfd_create("prog")
    os.write(fd, open("/bin/true", "rb").read())
    sh("/proc/self/fd/%d" % fd, pass_fds=[fd])
@ordinary
def temporary_file():
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"x"); f.flush()
        assert os.path.dirname(f.name) == "/tmp", f.name
@ordinary
def tmp_by_name():
    with open("/tmp/by-name", "w") as f: f.write("x")
    assert stat.S_IMODE(os.stat("/tmp").st_mode) == 0o1777
@ordinary
def var_tmp(): open("/var/tmp/x", "w").close()


def square(x): return x * x
def locked(lock):
    with lock: pass


def pool(method):
    import multiprocessing as mp
    with mp.get_context(method).Pool(2) as p: assert p.map(square, [1, 2, 3]) == [1, 4, 9]


@ordinary
def pool_by_fork(): pool("fork")
@ordinary
def pool_by_forkserver(): pool("forkserver")
@ordinary
def pool_by_spawn(): pool("spawn")


@ordinary
def lock_by_spawn():
    import multiprocessing as mp
    c = mp.get_context("spawn")
    lock = c.Lock()
    p = c.Process(target=locked, args=(lock,)); p.start(); p.join()
    assert p.exitcode == 0


@ordinary
def manager():
    import multiprocessing as mp
    with mp.Manager() as m:
        d = m.dict(); d["x"] = 1
        assert d["x"] == 1


@ordinary
def shared_memory():
    from multiprocessing import shared_memory as sm
    s = sm.SharedMemory(create=True, size=1 << 20)
    t = sm.SharedMemory(name=s.name); s.buf[0] = 7
    assert t.buf[0] == 7
    t.close(); s.close(); s.unlink()


def serve(family, address):
    server = socket.socket(family); server.bind(address); server.listen(1)
    client = socket.socket(family); client.connect(server.getsockname())
    c, _ = server.accept(); c.sendall(b"hi")
    assert client.recv(2) == b"hi"


@ordinary
def local_tcp(): serve(socket.AF_INET, ("127.0.0.1", 0))
@ordinary
def local_tcp6(): serve(socket.AF_INET6, ("::1", 0))
@ordinary
def local_tcp_by_any_address(): serve(socket.AF_INET, ("0.0.0.0", 0))
@ordinary
def local_tcp_by_own_name(): serve(socket.AF_INET, (socket.gethostbyname("localhost"), 0))
@ordinary
def unix_in_tmp(): serve(socket.AF_UNIX, tempfile.mkdtemp() + "/s")
@ordinary
def unix_in_shm(): serve(socket.AF_UNIX, "/dev/shm/s")
@ordinary
def unix_in_workspace():
    try: serve(socket.AF_UNIX, ws("inside.sock"))
    finally: os.unlink(ws("inside.sock"))
@ordinary
def unix_in_a_layer(): serve(socket.AF_UNIX, home(".cache", "inside.sock"))
@ordinary
def unix_relative():
    os.chdir(tempfile.mkdtemp()); serve(socket.AF_UNIX, "s")
@ordinary
def unix_abstract(): serve(socket.AF_UNIX, "\0inside-" + os.urandom(8).hex())
@ordinary
def socketpair():
    a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
@ordinary
def connect_refused():
    try: socket.create_connection(("127.0.0.1", 1), 1)
    except ConnectionRefusedError: return
    raise Exception("connected")
@ordinary
def connect_to_nothing():
    try: socket.socket(socket.AF_UNIX).connect("/tmp/there-is-none")
    except FileNotFoundError: return
    raise Exception("connected")
@ordinary
def connect_from_a_thread():
    import threading
    errors = []
    def run():
        try: local_tcp(); unix_in_tmp()
        except Exception as e: errors.append(e)
    t = threading.Thread(target=run); t.start(); t.join()
    assert not errors, errors
@ordinary
def udp():
    a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 0))
    b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.sendto(b"x", a.getsockname())
    assert a.recv(1) == b"x"
    b.connect(a.getsockname()); b.send(b"y"); assert a.recv(1) == b"y"


@ordinary
def asyncio_server():
    import asyncio
    async def main():
        async def handle(r, w):
            w.write(await r.readline()); await w.drain(); w.close()
        s = await asyncio.start_server(handle, "127.0.0.1", 0)
        r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
        w.write(b"hi\n"); assert await r.readline() == b"hi\n"
        w.close(); s.close()
    asyncio.run(main())


@ordinary
def http_server():
    import http.server, threading, urllib.request
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    s = http.server.HTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    assert urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port).status == 200


def git(*args, cwd=None):
    return sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org", *args, cwd=cwd or W["workspace"])


@ordinary
def git_status(): git("status")
@ordinary
def git_commit():
    with open(ws("committed"), "a") as f: f.write("x")
    git("add", "committed"); git("commit", "-m", "from inside")
    assert "from inside" in git("log", "-1")
@ordinary
def git_branch_and_gc(): git("branch", "-f", "other"); git("gc", "-q")
@ordinary
def git_stash():
    with open(ws("README"), "a") as f: f.write("x")
    git("stash"); git("stash", "pop"); git("checkout", "README")
@ordinary
def git_init_and_clone():
    d = tempfile.mkdtemp(dir=W["workspace"])
    git("init", "-q", d); git("clone", "-q", W["workspace"], d + "/clone")
    sh("rm", "-rf", d)
@ordinary
def git_in_a_nested_repository():
    with open(ws("vendor/lib/x"), "a") as f: f.write("x")
    git("add", "x", cwd=ws("vendor/lib")); git("commit", "-m", "nested", cwd=ws("vendor/lib"))


@ordinary
def write_workspace():
    os.makedirs(ws("a/b"), exist_ok=True)
    with open(ws("a/b/c"), "w") as f: f.write("x")
    os.rename(ws("a/b/c"), ws("d")); os.unlink(ws("d")); sh("rm", "-rf", ws("a"))
@ordinary
def write_named_directory():
    with open(os.path.join(W["named"], "made-inside"), "w") as f: f.write("x")
@ordinary
def read_home(): assert "note" in read(home("note.txt"))
@ordinary
def write_cache():
    os.makedirs(home(".cache/tool"), exist_ok=True)
    with open(home(".cache/tool/x"), "w") as f: f.write("x")
    with open(home(".cache/ruff/existing"), "a") as f: f.write("more")
    assert read(home(".cache/ruff/existing")).startswith("cached")
@ordinary
def write_config():
    with open(home(".config/tool.toml"), "w") as f: f.write("x")
    assert read(home(".config/tool.toml")) == "x"


@ordinary
def matplotlib_with_a_cold_cache():
    sh(sys.executable, "-W", "error", "-c", "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p; p.plot([1,2]); p.savefig('/tmp/x.png')")


def wheel(name):
    import zipfile
    path = "/tmp/%s-1-py3-none-any.whl" % name
    info = name + "-1.dist-info/"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(name + ".py", "x = 42\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1\n" % name)
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return path


@ordinary
def venv_and_pip():
    d = ws("env")
    pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
    sh(sys.executable, "-m", "venv", *(["--without-pip"] if pip else []), d)
    run = [sys.executable, "-m", "pip", "--python", d + "/bin/python"] if pip else [d + "/bin/pip"]
    sh(*run, "install", "--no-index", wheel("escapes_pkg"))
    sh(d + "/bin/python", "-c", "import escapes_pkg; assert escapes_pkg.x == 42")
    sh("rm", "-rf", d)


@ordinary
def user_site():
    p = sh(sys.executable, "-c", "import site; print(site.getusersitepackages())").strip()
    os.makedirs(p, exist_ok=True)
    with open(p + "/escapes_user.py", "w") as f: f.write("x = 1\n")
    sh(sys.executable, "-c", "import escapes_user")


@ordinary
def numpy_threads(): sh(sys.executable, "-c", "import numpy as n; a = n.random.rand(500, 500); a @ a")
@ordinary
def locale_and_zone():
    time.tzset(); sh("date"); sh("locale")
@ordinary
def certificates():
    import ssl
    assert ssl.create_default_context().cert_store_stats()["x509_ca"] >= 0


@ordinary
def pseudo_terminal():
    import pty
    m, s = pty.openpty()
    os.write(m, b"x\n"); assert os.ttyname(s).startswith("/dev/pts/")
@ordinary
def pty_spawn(): sh(sys.executable, "-c", "import pty,os; os._exit(os.waitstatus_to_exitcode(pty.spawn(['/bin/true'])))", stdin=subprocess.DEVNULL)
@ordinary
def tty_and_stty():
    t = open("/dev/tty", "r+b", buffering=0)
    assert os.ttyname(t.fileno()) == "/dev/tty" or True
    subprocess.run(["stty", "-a"], stdin=t, check=True, capture_output=True)
    assert subprocess.run(["tty"], stdin=0, capture_output=True, text=True).returncode in (0, 1)


@ordinary
def debugger():
    r = subprocess.Popen(["sleep", "100"])
    try:
        out = sh("gdb", "-p", str(r.pid), "-batch", "-ex", "info registers", "-ex", "detach", stdin=subprocess.DEVNULL)
        assert "pc" in out or "rip" in out, out
    finally: r.kill()


@ordinary
def processes_are_seen(): assert str(os.getpid()) in sh("ps", "ax")
@ordinary
def cpuinfo(): assert os.cpu_count() and open("/proc/cpuinfo").read() and open("/proc/meminfo").read()
@ordinary
def own_number():
    assert os.getuid() == W["uid"], os.getuid()
    assert os.stat(home("note.txt")).st_uid == W["uid"]
@ordinary
def file_lock():
    with open("/tmp/lock", "w") as f: fcntl.flock(f, fcntl.LOCK_EX)
@ordinary
def sqlite():
    import sqlite3
    c = sqlite3.connect(ws("db.sqlite")); c.execute("pragma journal_mode=wal"); c.execute("create table if not exists t(x)"); c.commit(); c.close()
    os.unlink(ws("db.sqlite"))
@ordinary
def inotify():
    fd = libc.inotify_init()
    assert libc.inotify_add_watch(fd, W["workspace"].encode(), 0x100) > 0
@ordinary
def threads():
    import threading
    t = [threading.Thread(target=lambda: None) for _ in range(50)]
    [x.start() for x in t]; [x.join() for x in t]
@ordinary
def node(): sh("node", "-e", "const s=require('net').createServer(c=>c.end('hi')).listen(0,()=>require('net').connect(s.address().port).on('data',d=>process.exit(d=='hi'?0:1)))")
@ordinary
def compiler():
    with open("/tmp/x.c", "w") as f: f.write("int main(){return 0;}")
    sh("gcc", "-o", "/tmp/x", "/tmp/x.c"); sh("/tmp/x")
@ordinary
def go_build(): # builds a package, because a program would first compile the Go runtime for 20 s
    d = tempfile.mkdtemp()
    with open(d + "/x.go", "w") as f: f.write("package x\nfunc F() int { return 1 }\n")
    with open(d + "/go.mod", "w") as f: f.write("module x\n")
    sh("go", "build", "-o", "x.a", ".", cwd=d, env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/go/bin", GOFLAGS="-mod=mod", GOTOOLCHAIN="local"))
    assert os.path.getsize(d + "/x.a")
@ordinary
def sudo_fails_fast():
    r = subprocess.run(["sh", "-c", "command -v sudo >/dev/null || exit 1; sudo -n true"], capture_output=True, timeout=20)
    assert r.returncode
@ordinary
def preload(): sh("/bin/true", env=dict(os.environ, LD_PRELOAD="libc.so.6"))


def rscript(code): return sh("Rscript", "--vanilla", "-e", code)


@ordinary
def r_plot(): rscript("png('/tmp/r.png', type='cairo'); plot(1); dev.off(); stopifnot(file.exists('/tmp/r.png'))")
@ordinary
def r_cluster(): rscript("library(parallel); cl <- makeCluster(2); stopifnot(all(parSapply(cl, 1:2, function(x) x*x) == c(1,4))); stopCluster(cl)")
@ordinary
def r_mclapply(): rscript("stopifnot(identical(unlist(parallel::mclapply(1:2, function(x) x+1, mc.cores=2)), c(2,3)))")


@ordinary
def r_install_with_a_compiler():
    d = tempfile.mkdtemp() + "/probe"
    os.makedirs(d + "/src"); os.makedirs(d + "/R")
    open(d + "/DESCRIPTION", "w").write("Package: probe\nVersion: 1.0\nTitle: P\nDescription: P.\nAuthor: P\nMaintainer: P <p@example.org>\nLicense: GPL-2\n")
    open(d + "/NAMESPACE", "w").write("useDynLib(probe)\nexport(answer)\n")
    open(d + "/R/p.R", "w").write("answer <- function() .Call('answer', PACKAGE='probe')\n")
    open(d + "/src/p.c", "w").write("#include <Rinternals.h>\nSEXP answer(void){return Rf_ScalarInteger(42);}\n")
    rscript("lib <- Sys.getenv('R_LIBS_USER'); dir.create(lib, FALSE, TRUE); install.packages('%s', repos=NULL, type='source', lib=lib, quiet=TRUE); library(probe, lib.loc=lib); stopifnot(answer()==42L)" % d)


NEEDS = {
    "debugger": "gdb", "node": "node", "compiler": "gcc", "go_build": "go", "processes_are_seen": "ps",
    "matplotlib_with_a_cold_cache": "python:matplotlib layer", "numpy_threads": "python:numpy",
    "venv_and_pip": "python:venv python:pip|python:ensurepip",
    "r_plot": "Rscript", "r_cluster": "Rscript", "r_mclapply": "Rscript", "r_install_with_a_compiler": "Rscript cc layer",
    "unix_in_a_layer": "layer", "write_cache": "layer", "write_config": "layer", "user_site": "layer",
}

def serve_names():
    """Runs the probes named on standard input, each in a child process."""
    for name in map(str.strip, sys.stdin):
        out = tempfile.TemporaryFile()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            for fd in 1, 2: os.dup2(out.fileno(), fd)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.closerange(3, 100)
            code = 1
            try: run(name); code = 0
            except SystemExit as e: print(e)
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush(); sys.stderr.flush()
            os._exit(code)
        os.waitpid(pid, 0)
        out.seek(0)
        print(json.dumps(out.read().decode("utf-8", "replace")), flush=True)


def run(name):
    if name == "list":
        print(json.dumps({"escapes": list(ESCAPES), "ordinary": list(ORDINARY), "needs": NEEDS}))
    elif name in ESCAPES:
        try: print("open:", ESCAPES[name]())
        except (OSError, KeyError) as e: print("held:", type(e).__name__, e)
    else:
        ORDINARY[name]()
        print("works")


if __name__ == "__main__":
    serve_names() if sys.argv[1] == "serve" else run(sys.argv[1])
