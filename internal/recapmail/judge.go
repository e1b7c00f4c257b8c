package recapmail

import (
	"errors"
	"strconv"
	"time"

	"github.com/wneessen/go-mail"
)

// verdict is what is made of an attempt to send a mail.
type verdict struct {
	outcome Outcome // Pending: again later
	charged bool    // the attempt counts against the mail
	broken  bool    // the connection is of no more use
	reply   string  // the server's code
	sender  bool    // the server does not want what comes from us: no mail can be sent
}

// Codes that are about the connection, not about the mail.
const (
	serviceClosing = 421 // the server is about to hang up
	badSequence    = 503 // an earlier mail was not closed
)

// judge decides by what stage the library came to and what code the server gave, which are all that is known for sure.
//
// Only a refusal of the recipient or of the content is about this mail. A refused sender is about us and would be refused for
// every mail: no mail is charged for it. Without a code the connection broke; whether the server has the mail, when that came
// while it took it, is not to be known, and so the mail is sent again under the same Message-ID.
func judge(err error) verdict {
	var failed *mail.SendError
	if !errors.As(err, &failed) {
		return verdict{broken: true}
	}
	code, atContent := failed.ErrorCode(), false
	switch failed.Reason {
	case mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose:
		atContent = true
	case mail.ErrWriteContent:
		return verdict{charged: true, broken: true}
	case mail.ErrGetSender, mail.ErrGetRcpts, mail.ErrNoUnencoded:
		return verdict{outcome: Refused, charged: true, reply: "address"}
	case mail.ErrSMTPMailFrom:
		return judgeSender(code)
	case mail.ErrSMTPReset, mail.ErrConnCheck, mail.ErrAmbiguous:
	}
	switch {
	case code == serviceClosing:
		return verdict{broken: true, reply: strconv.Itoa(code)}
	case code >= 500 && atContent:
		return verdict{outcome: Refused, charged: true, reply: strconv.Itoa(code)}
	case code >= 400:
		return verdict{charged: true, reply: strconv.Itoa(code)}
	}
	return verdict{charged: atContent, broken: true}
}

// judgeSender decides when the server did not take the sender, where that came from the server at all. For now: the connection
// is begun anew, with a pause.
func judgeSender(code int) verdict {
	v := verdict{broken: true}
	if code >= 400 {
		v.reply = strconv.Itoa(code)
	}
	v.sender = code >= 500 && code != badSequence
	return v
}

// report makes a report of a verdict on a mail that had so many attempts before.
func (v verdict) report(c Claimed, claim int64, r Retries) Report {
	rep := Report{User: c.User, Claim: claim, Outcome: v.outcome, Reply: v.reply}
	if v.outcome == Pending {
		rep.Wait = r.wait(c.Attempts)
		if c.Attempts+1 >= r.Most {
			rep.Outcome = GivenUp
		}
	}
	return rep
}

// Retries says how often, and when, a mail that is refused for now is tried.
type Retries struct {
	Most    int           // attempts; default 8
	First   time.Duration // the wait after the first; default 30 s
	Longest time.Duration // each wait is twice the one before, up to this; default 15 min
}

func (r Retries) withDefaults() Retries {
	if r.Most <= 0 {
		r.Most = 8
	}
	if r.First <= 0 {
		r.First = 30 * time.Second
	}
	if r.Longest <= 0 {
		r.Longest = 15 * time.Minute
	}
	return r
}

// wait is how long to wait after an attempt, of which there were so many before.
func (r Retries) wait(before int) time.Duration {
	d := r.First
	for range before {
		if d = min(2*d, r.Longest); d == r.Longest {
			break
		}
	}
	return min(d, r.Longest)
}
