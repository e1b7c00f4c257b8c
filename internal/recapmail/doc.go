// Package recapmail mails the recaps of a week: one mail per user and week, however often and wherever the job runs.
//
// # What is promised
//
// Every user who was active in the week, is not on off, has an address and asked for it gets one mail. A job that is killed
// and started again, or runs several times at once, sends none twice, but for the mails that were in flight at the kill: at
// most one per connection. A mail that is sent again has the same Message-ID, which follows from user and week. An address
// that the server refuses for good (5xx) is recorded and left alone; what it refuses for now (4xx) is tried again, later
// each time, up to a bound. While the server is away the job waits, and no mail is charged for it. A server that
// refuses the sender, or the first mails one and all (firstMails), ends the job: that is about the settings, and must not use
// the week up.
//
// # How
//
// Postgres has a row per mail (recap_mails). The job first puts in the rows that are missing, which can be done over and
// over. Each connection then, for itself: takes a lease on a batch of rows that are due, under a random claim; reads their
// recaps; and sends them one after another. Before the next it waits until Postgres has what became of the one before; the
// connections report together, so that one statement and one commit serve all that wait (see reporter). A report counts only
// with the claim that holds the row, but for one of a mail that was taken, which always counts.
//
// Leases are by Postgres's clock. A mail is begun only while its lease has more time left than a mail may take, measured
// from before the lease was asked for; so no two processes have the same mail in hand, unless one was suspended in the
// middle of it. The rows of a process that died are due again when its leases end.
//
// A recap is read at most seconds before it is handed over (freshFor), with the user's mode, address and choice: who left,
// was deleted or unsubscribed meanwhile gets no mail, and the row goes.
//
// # What it never does
//
// It logs no address and keeps no text of the server, which can hold one: only codes. It sends no week that is not over
// everywhere, nor one that is long over, for whose rows are gone.
package recapmail
