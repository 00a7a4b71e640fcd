package kernel

import (
	"errors"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
)

// maxReportedErrors bounds the notices about rejected messages, since any program may send such messages.
const maxReportedErrors = 10

// servePeer handles the requests of a peer, and disconnects it if handle returns an error.
func (k *kernel) servePeer(conn *zmtp.Conn, handle func(*peerRequest) error) {
	for {
		frames, err := conn.Receive()
		if err != nil {
			return
		}
		m, err := k.codec.Decode(frames)
		if err != nil {
			k.reportRejected(err)
			continue
		}
		if err := handle(&peerRequest{m, conn}); err != nil {
			k.reportRejected(err)
			return
		}
	}
}

// reportRejected prints a notice about a rejected message.
func (k *kernel) reportRejected(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rejectedMessages++
	switch {
	case k.rejectedMessages < maxReportedErrors:
		k.printNotice("message rejected: %v", err)
	case k.rejectedMessages == maxReportedErrors:
		k.printNotice("message rejected: %v; further ones are not reported", err)
	}
}

// sendReply answers a request on its own connection.
func (k *kernel) sendReply(r *peerRequest, kind string, content any, metadata []byte) {
	m, err := r.NewReply(kind, content)
	if err != nil {
		k.printNotice("%v", err)
		return
	}
	m.Header = wire.NewHeader(k.id, r.Header.Username, kind)
	m.Metadata = metadata
	frames, err := k.codec.Encode(&m)
	if err == nil {
		err = r.conn.Enqueue(frames...)
	}
	if errors.Is(err, zmtp.ErrSlowPeer) {
		k.printNotice("%v", err)
	}
}

// sendPlainReply answers a request that needs no turn, between the statuses busy and idle.
func (k *kernel) sendPlainReply(r *peerRequest, kind string, content any) {
	k.publishBusy(&r.Header)
	k.sendReply(r, kind, content, nil)
	k.publishIdle(&r.Header)
}

func (k *kernel) publishBusy(parent *wire.Header) {
	k.subs.publish(parent, "status", statusContent{"busy"})
}

func (k *kernel) publishIdle(parent *wire.Header) {
	k.subs.publish(parent, "status", statusContent{"idle"})
}
