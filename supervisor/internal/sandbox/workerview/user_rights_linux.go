package workerview

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// DropEffectiveRights reduces the calling thread to the user's rights, and gives it a separate
// umask. It enters the worker's IPC namespace and its mounts. The kernel protects a mount point from
// being renamed or removed only in the namespace that sees the mount. The thread can regain its
// rights.
//
// No signal interrupts the thread: during the delivery of a descriptor, a signal would give the
// program descriptor 0 instead.
func (v *View) DropEffectiveRights() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(v.IPCNS, unix.CLONE_NEWIPC); err != nil {
		return err
	}
	if err := unix.Setns(v.MountNS, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return setEffective(0)
}

// setEffective makes the given capabilities of the thread effective, as far as they are permitted.
func setEffective(rights uint32) error {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective, data[1].Effective = data[0].Permitted&rights, 0
	return unix.Capset(&header, &data[0])
}

// WithRights runs f with the right to inspect any program of the session. The thread has this right
// only while f runs. The caller must have locked its thread. The error is that of f, or of a change
// of the rights.
func WithRights(f func() error) error {
	if err := setEffective(1 << unix.CAP_SYS_PTRACE); err != nil {
		return err
	}
	err := f()
	if e := setEffective(0); e != nil {
		return e
	}
	return err
}

// RunUnprivileged runs f on a thread without rights, which ends with it. If the thread cannot drop
// its rights, f gets the error.
func (v *View) RunUnprivileged(f func(error)) {
	go func() {
		runtime.LockOSThread()
		f(v.DropEffectiveRights())
	}()
}
