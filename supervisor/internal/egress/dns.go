package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// maxQuestionBytes bounds a question in bytes; a question over UDP is never longer.
const maxQuestionBytes = 4096

// serveNames answers the session's questions until the socket is closed.
func (p *HostPolicy) serveNames(socket net.PacketConn) {
	buf := make([]byte, maxQuestionBytes)
	for {
		n, from, err := socket.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := p.answerQuestion(buf[:n]); answer != nil {
			_, _ = socket.WriteTo(answer, from) // if it fails, the session asks again or has ended
		}
	}
}

// answerQuestion returns the answer to one message, or nil if it needs no answer.
func (p *HostPolicy) answerQuestion(message []byte) []byte {
	var parser dnsmessage.Parser
	h, err := parser.Start(message)
	if err != nil || h.Response { // answering an answer could loop forever
		return nil
	}
	reply := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	questions, err := parser.AllQuestions()
	switch {
	case h.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	case err != nil || len(questions) != 1:
		reply.RCode, questions = dnsmessage.RCodeFormatError, nil
	}
	var body dnsmessage.ResourceBody
	if reply.RCode == dnsmessage.RCodeSuccess {
		body, reply.RCode = p.resolveQuestion(questions[0])
	}
	m := dnsmessage.Message{Header: reply, Questions: questions}
	if body != nil {
		q := questions[0]
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}, Body: body}}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// resolveQuestion answers one question. The body is nil if no such record exists.
func (p *HostPolicy) resolveQuestion(q dnsmessage.Question) (dnsmessage.ResourceBody, dnsmessage.RCode) {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case q.Class != dnsmessage.ClassINET:
		return nil, dnsmessage.RCodeRefused
	case q.Type == dnsmessage.TypePTR:
		return p.resolveAddress(name)
	case !isName(name):
		return nil, dnsmessage.RCodeNameError
	case isLocal(name, p.machineName) && q.Type == dnsmessage.TypeA:
		return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, dnsmessage.RCodeSuccess
	case isLocal(name, p.machineName) && q.Type == dnsmessage.TypeAAAA && name != p.machineName:
		return &dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}, dnsmessage.RCodeSuccess
	case isLocal(name, p.machineName), q.Type != dnsmessage.TypeA:
		return nil, dnsmessage.RCodeSuccess
	}
	a, ok := p.names.addressFor(name)
	if !ok {
		p.notifyOnce("names", "this session has resolved "+strconv.Itoa(maxNames)+" host names, the maximum; use another session for further names")
		return nil, dnsmessage.RCodeServerFailure
	}
	return &dnsmessage.AResource{A: a.As4()}, dnsmessage.RCodeSuccess
}

// resolveAddress answers a reverse lookup such as 2.0.18.198.in-addr.arpa with the name that the
// address stands for.
func (p *HostPolicy) resolveAddress(name string) (dnsmessage.ResourceBody, dnsmessage.RCode) {
	digits, ok := strings.CutSuffix(name, ".in-addr.arpa")
	labels := strings.Split(digits, ".")
	slices.Reverse(labels)
	a, err := netip.ParseAddr(strings.Join(labels, "."))
	if !ok || err != nil {
		return nil, dnsmessage.RCodeNameError
	}
	host := p.names.nameOf(a)
	if host == "" {
		return nil, dnsmessage.RCodeNameError
	}
	n, err := dnsmessage.NewName(host + ".")
	if err != nil {
		return nil, dnsmessage.RCodeServerFailure
	}
	return &dnsmessage.PTRResource{PTR: n}, dnsmessage.RCodeSuccess
}
