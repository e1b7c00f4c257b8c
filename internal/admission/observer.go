package admission

// Observer is told what happens, for metrics. Its methods are called while a request waits: they must not block.
type Observer interface {
	// Admission is called once per request. code is "" when it was let in; cached says that no Postgres was needed.
	Admission(scope Scope, code Code, cached bool)
	// RedisFailure is called when a step that was tried failed. No request fails with it.
	RedisFailure(step Step)
	// Breaker is called when Redis is given up (open) and when it is back.
	Breaker(open bool)
}

// Step names what was asked of Redis.
type Step string

// The steps of an admission that ask Redis.
const (
	StepAsk   Step = "ask"   // cached token and mode
	StepLimit Step = "limit" // a limit, when Redis itself answered with an error: it may be full
	StepFill  Step = "fill"  // filling what was not cached
	StepSeen  Step = "seen"  // noting that the user was seen, when Redis itself answered with an error
)

type noObserver struct{}

func (noObserver) Admission(Scope, Code, bool) {}
func (noObserver) RedisFailure(Step)           {}
func (noObserver) Breaker(bool)                {}
