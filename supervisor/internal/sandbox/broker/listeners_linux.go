package broker

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A unixListener identifies a Unix socket by its name: a file, or an abstract name.
type unixListener struct {
	inode        uint32 // of the socket
	device, file uint32 // of its file, if its name is a file
	abstract     string // its abstract name, if it has no file
}

// ownsListener reports whether a process of the session has a matching listener. In the user's
// network other programs listen as well. Their servers must not even see a connection, because
// another thread could send a request just before it is refused.
func (b *Broker) ownsListener(wanted unixListener) (bool, error) {
	b.sockDiagMu.Lock()
	defer b.sockDiagMu.Unlock()
	own := map[string]bool{}
	err := b.eachListener(func(l unixListener) {
		if l.device == wanted.device && l.file == wanted.file && l.abstract == wanted.abstract {
			own["socket:["+strconv.FormatUint(uint64(l.inode), 10)+"]"] = true
		}
	})
	if err != nil || len(own) == 0 || !b.plan.Network {
		return len(own) > 0, err // a separate network has only the session's listeners
	}
	return b.hasOpenFile(own), nil
}

// hasOpenFile reports whether a process of the session has one of these files open.
func (b *Broker) hasOpenFile(links map[string]bool) bool {
	for _, pid := range readDirNames(b.ProcFD, ".") {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		fds, err := unix.Openat(b.ProcFD, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has ended
		}
		found := false
		for _, fd := range readDirNames(fds, ".") {
			var link [64]byte
			n, err := unix.Readlinkat(fds, fd, link[:])
			found = found || err == nil && links[string(link[:n])]
		}
		unix.Close(fds)
		if found {
			return true
		}
	}
	return false
}

// readDirNames returns the names in a directory.
func readDirNames(dir int, path string) (found []string) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n <= 0 {
			return found
		}
		_, _, found = unix.ParseDirent(buf[:n], -1, found)
	}
}

// eachListener calls do for each Unix socket of the session's network, as the kernel lists them:
// https://man7.org/linux/man-pages/man7/sock_diag.7.html
func (b *Broker) eachListener(do func(unixListener)) error {
	const (
		byFamily = 20 // SOCK_DIAG_BY_FAMILY
		show     = 3  // UDIAG_SHOW_NAME and UDIAG_SHOW_VFS
	)
	q := make([]byte, 24) // struct unix_diag_req
	q[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in any state
	binary.NativeEndian.PutUint32(q[12:], show)
	if err := unix.Sendto(b.SockDiagFD, NetlinkMessage(byFamily, unix.NLM_F_DUMP, q), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(b.SockDiagFD, buf, 0)
		if err != nil {
			return err
		}
		for rest := buf[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.NLMSG_HDRLEN || size > len(rest) {
				return unix.EBADMSG
			}
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return nil
			case unix.NLMSG_ERROR:
				return unix.EBADMSG
			}
			if l := parseListener(rest[unix.NLMSG_HDRLEN:size]); l != (unixListener{inode: l.inode}) {
				do(l)
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}

// parseListener parses a struct unix_diag_msg and its attributes.
func parseListener(b []byte) (l unixListener) {
	const (
		sizeofAnswer = 16
		name         = 0 // UNIX_DIAG_NAME
		file         = 1 // UNIX_DIAG_VFS
	)
	if len(b) < sizeofAnswer {
		return l
	}
	l.inode = binary.NativeEndian.Uint32(b[4:])
	for b = b[sizeofAnswer:]; len(b) >= 4; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return l
		}
		switch kind := binary.NativeEndian.Uint16(b[2:]); {
		case kind == name && strings.HasPrefix(string(b[4:size]), "\x00"):
			l.abstract = string(b[4:size])
		case kind == file && size >= 12:
			l.file, l.device = binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return l
}

// NetlinkMessage encodes a netlink request of a kind, with a header before the body.
func NetlinkMessage(kind, flags uint16, body []byte) []byte {
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(m, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	return append(m, body...)
}
