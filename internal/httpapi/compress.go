package httpapi

import (
	"compress/gzip"
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"
)

// minCompressed is the size from which on compressing saves a packet.
const minCompressed = 1400

// compress compresses answers for who accepts gzip. It runs inside of observe: an error is answered there, after this has
// ended, and so goes out plain and at once even while the request's body is still coming.
//
// An answer that is flushed piece by piece is compressed piece by piece, whatever their size. One that says its encoding
// itself, such as a file that is kept compressed, is left as it is.
func compress() (echo.MiddlewareFunc, error) {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(minCompressed),
		gzhttp.CompressionLevel(gzip.BestSpeed), // JSON shrinks to a fifth by it; the best would take four times as long for little
		gzhttp.EnableZstd(false),
		gzhttp.SetContentType(false),
	)
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			res := c.Response()
			plain := res.Writer
			defer func() { res.Writer = plain }()
			wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				res.Writer = w
				err = next(c)
			})).ServeHTTP(plain, c.Request())
			return err
		}
	}, nil
}
