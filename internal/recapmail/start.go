package recapmail

import (
	"errors"
	"fmt"
	"sync"
)

// What is wrong with the settings, as the server sees it.
var (
	ErrSenderRefused = errors.New("the mail server refused the sender")
	ErrAllRefused    = fmt.Errorf("the mail server refused the first %d mails for good", firstMails)
)

// firstMails is how many mails a process lets be refused for good before one is taken: enough that they are hardly all bad
// addresses, few enough to lose little.
const firstMails = 20

// start watches over the first mails of a process. Until one is taken it must be supposed that the server will refuse
// every one, so that there are never more in hand than are left of the first. The zero value is ready.
type start struct {
	mu      sync.Mutex
	taken   bool
	hand    int // begun and not ended
	refused int
	reply   string
}

// begin says whether a mail may be begun now; where not, it may be when one that is in hand has ended. end must follow.
func (s *start) begin() (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken:
	case s.refused >= firstMails:
		return false, fmt.Errorf("%w: the last with %s", ErrAllRefused, s.reply)
	case s.refused+s.hand >= firstMails:
		return false, nil
	}
	s.hand++
	return true, nil
}

// end ends one that was begun. A mail that is to be tried again tells nothing.
func (s *start) end(v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hand--
	switch v.outcome {
	case Sent:
		s.taken = true
	case Refused:
		s.refused++
		s.reply = v.reply
	case Pending, GivenUp:
	}
}
