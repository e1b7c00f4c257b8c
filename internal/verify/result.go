package verify

// Count is what was found of one kind of drift.
type Count struct {
	Users   int64 `json:"users"`   // with this kind; on boards: places
	Rows    int64 `json:"rows"`    // sessions, totals, streaks or places that were wrong
	Seconds int64 `json:"seconds"` // by how much in all, without signs
	Healed  int64 `json:"healed"`  // of the users or places
}

// Result is what a pass has found. It is printed as JSON.
type Result struct {
	Users    int64   `json:"users"`   // checked
	Boards   int64   `json:"boards"`  // checked
	Members  int64   `json:"members"` // places on them
	Unbuilt  int64   `json:"unbuilt"` // boards that were not whole: Postgres answers for them
	Sessions Count   `json:"sessions"`
	Totals   Count   `json:"totals"`
	Streaks  Count   `json:"streaks"`
	Counts   Count   `json:"counts"` // numbers of sessions beside their users
	Places   Count   `json:"places"` // on boards
	Drift    int64   `json:"drift"`  // users and places of all kinds
	Healed   int64   `json:"healed"` // of them
	TookS    float64 `json:"took_s"`
}

// sum fills in Drift and Healed.
func (r *Result) sum() {
	r.Drift, r.Healed = 0, 0
	for _, c := range []Count{r.Sessions, r.Totals, r.Streaks, r.Counts, r.Places} {
		r.Drift += c.Users
		r.Healed += c.Healed
	}
}

// Add adds another pass's result.
func (r *Result) Add(o Result) {
	r.Users += o.Users
	r.Boards += o.Boards
	r.Members += o.Members
	r.Unbuilt += o.Unbuilt
	for _, c := range []struct{ to, from *Count }{
		{&r.Sessions, &o.Sessions}, {&r.Totals, &o.Totals}, {&r.Streaks, &o.Streaks}, {&r.Counts, &o.Counts}, {&r.Places, &o.Places},
	} {
		c.to.Users += c.from.Users
		c.to.Rows += c.from.Rows
		c.to.Seconds += c.from.Seconds
		c.to.Healed += c.from.Healed
	}
	r.TookS += o.TookS
	r.sum()
}
