package main

import (
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/alecthomas/kong"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redact"
)

// cli is the command line. Every flag with an env tag can be given as that variable instead.
type cli struct {
	LogLevel  slog.Level `help:"Least severe log lines to print: debug, info, warn or error." default:"info" env:"COMMMA_LOG_LEVEL"`
	LogFormat string     `help:"Format of log lines: text or json." enum:"text,json" default:"text" env:"COMMMA_LOG_FORMAT"`

	Dev     devCmd         `cmd:"" help:"Run everything on this machine: private Postgres and Redis, the API and the aggregator."`
	Serve   serveCmd       `cmd:"" help:"Run the API, and the aggregator too unless told otherwise."`
	Worker  workerCmd      `cmd:"" help:"Run the aggregator and the publisher without the API."`
	Migrate migrateCmd     `cmd:"" help:"Bring the database schema up to date, or show how it stands."`
	User    userCmd        `cmd:"" help:"Manage users."`
	Board   leaderboardCmd `cmd:"" name:"leaderboard" help:"Check the boards and the totals behind them, or build boards anew."`
	Counter countersCmd    `cmd:"" name:"counters" help:"Check the counts of kudos and comments."`
	Recap   recapCmd       `cmd:"" help:"Mail users their week in review."`
	Token   tokenCmd       `cmd:"" help:"Manage the service tokens of jobs."`
	Replay  replayCmd      `cmd:"" help:"Upload a file of events as an editor would."`
	Servers serversCmd     `cmd:"" help:"Make sure that Postgres and Redis are installed, for dev and for the tests."`
}

func newParser(c *cli) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("commma-api"),
		kong.Description("Commma turns editor activity into coding sessions, totals and leaderboards."),
		kong.UsageOnError(),
		// What it complains about it quotes: a token on the wrong side of a flag, too.
		kong.Writers(os.Stdout, redact.Writer(os.Stderr)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Vars{"cpus": itoa(runtime.GOMAXPROCS(0))},
	)
}

// program is what every command works with.
type program struct {
	stdout io.Writer
	stderr io.Writer
	log    *slog.Logger
	clock  clock.Clock
}

// databaseFlags say where Postgres is.
type databaseFlags struct {
	DatabaseURL string `help:"Postgres, as postgres://user:password@host:port/name." env:"COMMMA_DATABASE_URL" required:"" placeholder:"URL"`
	DatabaseMax int32  `help:"Connections to Postgres at most; 0 chooses by the number of CPUs." default:"0" env:"COMMMA_DATABASE_MAX_CONNS"`
}

// storeFlags say where both servers are.
type storeFlags struct {
	databaseFlags
	RedisURL string `help:"Redis, as redis://user:password@host:port/db. Further nodes of a cluster: ?addr=host:port&addr=…" env:"COMMMA_REDIS_URL" required:"" placeholder:"URL"`
}

// apiFlags are the settings of the API.
type apiFlags struct {
	Listen            string         `help:"Address to serve HTTP on." default:"127.0.0.1:8080" env:"COMMMA_LISTEN"`
	MaxEventAge       time.Duration  `help:"How far back events are accepted. Raise it to load old data." default:"720h" env:"COMMMA_MAX_EVENT_AGE"`
	IngestPerHour     int            `help:"Uploads per user and hour; 0 means no limit." default:"1000" env:"COMMMA_INGEST_PER_HOUR"`
	ReadsPerHour      int            `help:"Reads per user (or address, without a token) and hour; 0 means no limit." default:"300" env:"COMMMA_READS_PER_HOUR"`
	WritesPerHour     int            `help:"Changes per user and hour; 0 means no limit." default:"300" env:"COMMMA_WRITES_PER_HOUR"`
	FailedAuthPerHour int            `help:"Failed authentications per address and hour; 0 means no limit." default:"20" env:"COMMMA_FAILED_AUTH_PER_HOUR"`
	TrustedProxies    []netip.Prefix `help:"Networks of proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8." env:"COMMMA_TRUSTED_PROXIES" placeholder:"CIDR"`
	CORSOrigins       []string       `help:"Origins whose pages may read answers in a browser, such as https://commma.dev." name:"cors-origins" env:"COMMMA_CORS_ORIGINS" placeholder:"ORIGIN"`
	LanguageAliases   bool           `help:"Resolve language names by the list of aliases. Without it names are only folded, for comparing totals with other programs." default:"true" negatable:"" env:"COMMMA_LANGUAGE_ALIASES"`
}

// loopFlags are the settings of the aggregator and the publisher.
type loopFlags struct {
	AggregateEvery time.Duration `help:"Time between two looks for ended sessions." default:"5m" env:"COMMMA_AGGREGATE_EVERY"`
	PublishEvery   time.Duration `help:"Time between two looks for totals that boards do not show yet." default:"15s" env:"COMMMA_PUBLISH_EVERY"`
	FlushEvery     time.Duration `help:"Time between two looks for views and visits that have gathered in Redis." default:"5m" env:"COMMMA_FLUSH_EVERY"`
	VerifyEvery    time.Duration `help:"Time that the check for drift takes to go once over all users and boards; 0 turns it off." default:"24h" env:"COMMMA_VERIFY_EVERY"`
	Parallel       int           `help:"Users to finalize at the same time." default:"${cpus}" env:"COMMMA_PARALLEL"`
}
