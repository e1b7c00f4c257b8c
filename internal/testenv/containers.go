package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"

	"github.com/commma/commma/internal/localstack"
)

// containers starts servers in Docker, for machines that have that and no server programs.
type containers struct{}

const (
	postgresImage = "postgres:17-alpine"
	redisImage    = "redis:7-alpine"
)

// usedDocker says that goroutines of the Docker client may still run when the tests are over.
var usedDocker atomic.Bool

// dockerAnswers is nil when a Docker can be used.
func dockerAnswers(ctx context.Context) (err error) {
	// Where it finds no Docker at all, the library panics.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("find Docker: %v", r)
		}
	}()
	p, err := testcontainers.ProviderDefault.GetProvider()
	if err != nil {
		return fmt.Errorf("find Docker: %w", err)
	}
	defer func() { _ = p.Close() }()
	if err := p.Health(ctx); err != nil {
		return fmt.Errorf("ask Docker: %w", err)
	}
	return nil
}

func (containers) postgres(ctx context.Context) (Server, error) {
	settings := []string{"fsync=off", "full_page_writes=off", "jit=off", "max_connections=400"}
	cmd := []string{"postgres"}
	for _, s := range settings {
		cmd = append(cmd, "-c", s)
	}
	// The password protects nothing: the container lives for the time of a test, on the loopback interface.
	env := testcontainers.WithEnv(map[string]string{
		"POSTGRES_USER": "commma", "POSTGRES_PASSWORD": "commma", "POSTGRES_DB": "commma", "LC_ALL": "C",
	})
	return startContainer(ctx, postgresImage, "5432", "postgres://commma:commma@%s/commma?sslmode=disable", postgresServes,
		env, testcontainers.WithCmd(cmd...))
}

// postgresServes asks over TCP: while the image sets up the database, its server listens on a unix socket only.
func postgresServes(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (containers) redis(ctx context.Context, durable bool) (Server, error) {
	cmd := []string{
		"redis-server", "--save", "", "--maxmemory-policy", "noeviction",
		"--databases", strconv.Itoa(localstack.FastDatabases), "--appendonly", "no",
	}
	if durable {
		cmd[len(cmd)-1] = "yes"
	}
	return startContainer(ctx, redisImage, "6379", "redis://%s/0", redisServes, testcontainers.WithCmd(cmd...))
}

func redisServes(ctx context.Context, url string) error {
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return c.Ping(ctx).Err()
}

// inContainer is a Server in a container.
type inContainer struct {
	c      *testcontainers.DockerContainer
	docker *testcontainers.DockerClient
	url    string
	serves func(ctx context.Context, url string) error
}

// startContainer starts a container and removes it when the test binary ends.
func startContainer(ctx context.Context, image, port, url string, serves func(context.Context, string) error,
	opts ...testcontainers.ContainerCustomizer,
) (Server, error) {
	usedDocker.Store(true)
	bind, err := bindPort(port)
	if err != nil {
		return nil, err
	}
	c, err := testcontainers.Run(ctx, image, append(opts, testcontainers.WithExposedPorts(port+"/tcp"), bind)...)
	if c != nil {
		AtExit(func(ctx context.Context) error { return c.Terminate(ctx) })
	}
	if err != nil {
		return nil, fmt.Errorf("start container of %s: %w", image, err)
	}
	address, err := c.PortEndpoint(ctx, port+"/tcp", "")
	if err != nil {
		return nil, fmt.Errorf("find container of %s: %w", image, err)
	}
	s := &inContainer{c: c, url: fmt.Sprintf(url, address), serves: serves}
	if s.docker, err = testcontainers.NewDockerClientWithOpts(ctx); err != nil {
		return nil, fmt.Errorf("connect to Docker: %w", err)
	}
	return s, s.wait(ctx)
}

// bindPort binds a port of the container to a free one of this machine. One that Docker chooses would be another one
// after a restart.
func bindPort(port string) (testcontainers.CustomizeRequestOption, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
		hc.PortBindings = network.PortMap{network.MustParsePort(port + "/tcp"): {{HostPort: strconv.Itoa(free)}}}
	}), nil
}

// wait waits until the server answers.
func (s *inContainer) wait(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := s.serves(try, s.url)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for container: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// URL implements Server.
func (s *inContainer) URL() string { return s.url }

// Stop implements Server.
func (s *inContainer) Stop(ctx context.Context) error {
	if err := s.c.Stop(ctx, nil); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}

// Kill implements Server. Docker answers before the process is gone.
func (s *inContainer) Kill(ctx context.Context) error {
	running, err := s.running(ctx)
	if err != nil || !running {
		return err
	}
	if err := s.signal(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	for running && err == nil {
		running, err = s.running(ctx)
	}
	return err
}

func (s *inContainer) running(ctx context.Context) (bool, error) {
	state, err := s.c.State(ctx)
	if err != nil {
		return false, fmt.Errorf("look at container: %w", err)
	}
	return state.Running, nil
}

// Restart implements Server. The container, and with it the data, stays the same.
func (s *inContainer) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := s.c.Start(ctx); err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	return s.wait(ctx)
}

// signalTimeout bounds Signal, which has no context of its own because the local servers need none.
const signalTimeout = 10 * time.Second

// Signal implements Server.
func (s *inContainer) Signal(sig os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	unix, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal container: %v is not a Unix signal", sig)
	}
	return s.signal(ctx, unix)
}

// signal signals the container's first process. Stopping and going on are for all of its processes, so Docker does it.
func (s *inContainer) signal(ctx context.Context, sig syscall.Signal) error {
	id := s.c.GetContainerID()
	var err error
	switch sig {
	case syscall.SIGSTOP:
		_, err = s.docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
	case syscall.SIGCONT:
		_, err = s.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	default:
		_, err = s.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: strconv.Itoa(int(sig))})
	}
	if err != nil {
		return fmt.Errorf("signal container: %w", err)
	}
	return nil
}
