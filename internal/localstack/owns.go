package localstack

import (
	"crypto/subtle"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
)

// Owns says whether a database URL is that of the stack on a data directory, running or not: whoever has sourced the file
// env and starts the stack again means the stack, and not a server somewhere else. The password tells, which is random.
func Owns(dataDir, databaseURL string) bool {
	text, err := os.ReadFile((&home{dir: filepath.Join(dataDir, "postgres")}).statePath())
	if err != nil {
		return false
	}
	var s state
	u, err := url.Parse(databaseURL)
	if err != nil || json.Unmarshal(text, &s) != nil || s.Password == "" || u.User == nil {
		return false
	}
	password, _ := u.User.Password()
	return subtle.ConstantTimeCompare([]byte(password), []byte(s.Password)) == 1
}
