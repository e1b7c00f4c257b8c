package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/labstack/echo/v4"
)

// errBodyNotRead is a body that did not arrive. It must never be answered as a bad request: clients throw away what
// they sent after a 400, and this may have been the network's fault.
var errBodyNotRead = errors.New("body did not arrive")

// errMisframed is a body whose chunks are not what HTTP/1.1 says. It arrived, and would be the same the next time.
var errMisframed = errors.New("body is not framed as HTTP")

// framingErrors are what net/http says about chunks that can never be read. It has no values for most of them. What is
// missing here is taken for the network's fault: the client then tries once too often, but loses nothing.
var framingErrors = []string{
	"malformed chunked encoding",
	"invalid byte in chunk length",
	"empty hex number for chunk length",
	"http chunk length too large",
	"chunked line ends with bare LF",
	"invalid CR in chunked line",
	"chunked encoding contains too much non-data",
	"http: suspiciously long trailer after chunked body",
}

// unread is what a failure to read a body means.
func unread(err error) error {
	if misframed(err) {
		return errMisframed
	}
	return errBodyNotRead
}

// misframed says of a failure to read a body that it is certainly the sender's.
func misframed(err error) bool {
	var trailer textproto.ProtocolError
	if errors.Is(err, http.ErrLineTooLong) || errors.As(err, &trailer) {
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if slices.Contains(framingErrors, err.Error()) {
			return true
		}
	}
	return false
}

// maxDrain is how much of a body that is too large is read and thrown away once it was refused. Closing the connection
// under a client that is still sending can cost it the answer, and the clients take that for a network error and send
// the same again, for ever. A batch of 500 events at their limits is about 3 MiB.
const maxDrain = 8 << 20

// refuseEarly prepares an answer that does not wait for the request's body: without it net/http would read some of the
// body first. A connection whose body is not even worth reading to its end is closed after the answer.
func refuseEarly(c echo.Context) {
	// Where it is not supported (HTTP/2) it is not needed.
	_ = http.NewResponseController(c.Response()).EnableFullDuplex()
	if c.Request().ContentLength > maxDrain {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
}

// drain sends the answer off and then reads what is still coming, until the body ends, or is too long for that, or the
// server's read timeout ends.
func drain(c echo.Context) {
	if err := http.NewResponseController(c.Response().Writer).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return // nobody is there any more
	}
	_, _ = io.CopyN(io.Discard, c.Request().Body, maxDrain)
}
