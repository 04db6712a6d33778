//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// launch starts the server and waits until it is ready. The processes of a killed predecessor may need a moment to
// notice that it is gone; until then its shared memory counts as in use.
func (s *Server) launch(ctx context.Context, bin Binaries, run account) error {
	if err := rotate(s.logPath); err != nil {
		return err
	}
	patience := time.Now().Add(10 * time.Second)
	for {
		if err := s.spawn(bin, run); err != nil {
			return err
		}
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		s.stopping.Store(true)
		s.abort()
		if !strings.Contains(s.recentLog(), "shared memory block") || time.Now().After(patience) || ctx.Err() != nil {
			return err
		}
		s.stopping.Store(false)
		for _, dir := range s.Dirs() {
			if err := s.lock(dir); err != nil {
				return err
			}
		}
	}
}

// spawn starts the server process and the goroutine that waits for its end.
func (s *Server) spawn(bin Binaries, run account) error {
	logFile, err := os.OpenFile(s.logPath, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of postgres: %w", err)
	}
	if info, err := logFile.Stat(); err == nil {
		s.logFrom = info.Size()
	}
	// The life of the server is not that of the context of the start.
	cmd := run.command(context.Background(), s.data(), bin.program("postgres"),
		"-D", s.data(), "-c", "config_file="+filepath.Join(s.home, "postgresql.conf"))
	cmd.Stdout, cmd.Stderr = logFile, logFile
	dieWithParent(cmd.SysProcAttr, s.lastSignal())
	s.cmd, s.done, s.err, s.watcher = cmd, make(chan struct{}), nil, nil
	started := make(chan error, 1)
	go s.run(started)
	return errors.Join(<-started, logFile.Close())
}

// run owns the server process from its start to its end. It keeps its thread, because the kernel sends the parent death
// signal when the thread that started the process ends.
func (s *Server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.cmd.Start(); err != nil {
		started <- fmt.Errorf("start postgres: %w", err)
		return
	}
	if err := s.startWatcher(); err != nil {
		err = errors.Join(err, s.signal(syscall.SIGKILL))
		_ = s.cmd.Wait() // killed
		started <- err
		return
	}
	started <- nil
	waitErr := s.cmd.Wait()
	var sessionErr error
	if waitErr != nil {
		sessionErr = killSessions(context.Background(), s.home, ownerOf(s.data()))
	}
	if err := errors.Join(sessionErr, s.watcher.dismiss(), s.unlock()); err != nil {
		s.cfg.Logger.Warn("postgres: cleaning up", "error", err)
	}
	if filepath.Dir(s.sockets) != s.home {
		_ = os.Remove(s.sockets) // stays when a killed server left its socket in it; the next start takes it over
	}
	if !s.stopping.Load() {
		s.err = s.died(waitErr)
	}
	close(s.done)
}

func (s *Server) died(waitErr error) error {
	state := "exit status 0"
	if waitErr != nil {
		state = waitErr.Error()
	}
	return fmt.Errorf("%w (%s); the end of %s:\n%s", ErrDied, state, s.logPath, lastLines(s.recentLog(), 10))
}

func (s *Server) startWatcher() error {
	if !watchParent && !s.cfg.Disposable {
		return nil
	}
	sig := s.lastSignal()
	if !watchParent {
		sig = 0 // the kernel has sent it
	}
	var remove []string
	if s.cfg.Disposable {
		remove = s.Dirs()
	}
	w, err := watch(sig, s.cmd.Process.Pid, filepath.Join(s.data(), "postmaster.pid"), remove...)
	s.watcher = w
	return err
}

// lastSignal is sent to the server when this process dies: a fast shutdown, or for a disposable one an immediate one.
func (s *Server) lastSignal() syscall.Signal {
	if s.cfg.Disposable {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// abort ends the server without a checkpoint, and returns when it is gone.
func (s *Server) abort() {
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if err := s.signal(sig); err != nil {
			s.cfg.Logger.Warn("postgres: stopping", "error", err)
		}
		timer := time.NewTimer(6 * time.Second) // the server itself kills its processes after 5 s
		select {
		case <-s.done:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
	<-s.done
}

func (s *Server) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postgres: %w", err)
	}
	return nil
}
