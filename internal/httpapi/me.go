package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
)

// Accounts reads and changes users.
type Accounts interface {
	Me(ctx context.Context, userID uuid.UUID) (account.Facts, error)
	// Change changes what is given, all of it or nothing.
	Change(ctx context.Context, userID uuid.UUID, c account.Change) error
	DeleteUser(ctx context.Context, userID uuid.UUID) error
	DeleteSession(ctx context.Context, userID, sessionID uuid.UUID) error
}

// maxPatchBytes is far more than all fields of an account need.
const maxPatchBytes = 64 << 10

// GetMe answers the signed-in user's account.
func (h *handlers) GetMe(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	return h.answerMe(c, grant.UserID)
}

// PatchMe changes the signed-in user's handle, privacy, time zone and mail, whichever are given.
func (h *handlers) PatchMe(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	change, err := readMePatch(http.MaxBytesReader(c.Response(), c.Request().Body, maxPatchBytes))
	if err != nil {
		return err
	}
	if err := h.Accounts.Change(c.Request().Context(), grant.UserID, change); err != nil {
		return err
	}
	return h.answerMe(c, grant.UserID)
}

// DeleteMe deletes the signed-in user.
func (h *handlers) DeleteMe(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	if err := h.Accounts.DeleteUser(c.Request().Context(), grant.UserID); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// answerMe reads the account anew, so that what is answered after a change is what is stored.
func (h *handlers) answerMe(c echo.Context, userID uuid.UUID) error {
	f, err := h.Accounts.Me(c.Request().Context(), userID)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, meAnswer(&f))
}

// meAnswer is the account as it goes over the wire. Users without rejections get an empty object, not null.
func meAnswer(f *account.Facts) api.Me {
	rejections := f.Rejections
	if rejections == nil {
		rejections = map[string]int64{}
	}
	return api.Me{
		ID:        f.ID,
		Handle:    f.Handle,
		AvatarURL: f.AvatarURL,
		Email:     f.Email,
		RecapMail: f.RecapMail,
		Privacy:   api.PrivacyMode(f.Mode),
		Timezone:  f.Zone,
		CreatedAt: api.Instant(f.CreatedAt),
		Streak: api.Streak{
			CurrentDays:    f.Streak.CurrentDays,
			LongestDays:    f.Streak.LongestDays,
			LastActiveDate: f.Streak.LastActiveDate,
		},
		Rejections7D: rejections,
	}
}

// readMePatch reads and checks all of a PATCH before any of it is done. It is strict, since a field that is silently
// passed over (a misspelled privacy) would be a promise not kept.
func readMePatch(r io.Reader) (account.Change, error) {
	var change account.Change
	fields, err := readObject(r)
	if err != nil {
		return change, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // in order, so that the same mistake gets the same answer
		if err := readMeField(&change, name, fields[name]); err != nil {
			return account.Change{}, err
		}
	}
	return change, nil
}

// readObject reads a small body whole. Its names are matched exactly by whoever looks at them.
func readObject(r io.Reader) (map[string]json.RawMessage, error) {
	body, err := io.ReadAll(r)
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return nil, err
	}
	if err != nil {
		return nil, unread(err)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, &requestError{[]api.ErrorDetail{
			{Code: api.ErrorDetailCodeInvalid, Path: []string{}, Message: "want a JSON object"},
		}}
	}
	return fields, nil
}

// readMeField checks one field and notes it. Names are matched exactly: unlike encoding/json, which would take Privacy for
// privacy and let the last of several spellings win.
func readMeField(change *account.Change, name string, raw json.RawMessage) error {
	switch name {
	case "email", "recap_mail":
		return readMailField(&change.Mail, name, raw)
	case "privacy", "timezone", "handle":
	default:
		// Its name is not repeated: it is the client's text.
		return &requestError{[]api.ErrorDetail{{
			Code: api.ErrorDetailCodeUnknownField, Path: []string{}, Message: "only handle, privacy, timezone, email and recap_mail can be changed here",
		}}}
	}
	// Through a pointer, because null would otherwise read as an empty string.
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil {
		return invalid(name, "want a string")
	}
	switch name {
	case "timezone":
		change.Zone = text
		return account.ValidateZone(*text)
	case "handle":
		change.Handle = text
		return account.ValidateHandle(*text)
	}
	mode, err := activity.ParseMode(*text)
	if err != nil {
		return invalid(name, "want full, summary or off")
	}
	change.Mode = &mode
	return nil
}

// readMailField checks where, or whether, a user wants mail. The address may be null: none.
func readMailField(change *account.MailChange, name string, raw json.RawMessage) error {
	if name == "recap_mail" {
		var choice *bool
		if json.Unmarshal(raw, &choice) != nil || choice == nil {
			return invalid(name, "want true or false")
		}
		change.Recap = choice
		return nil
	}
	var address *string
	if json.Unmarshal(raw, &address) != nil {
		return invalid(name, "want a string, or null for none")
	}
	change.SetEmail = true
	if address == nil {
		return nil
	}
	change.Email = *address
	return account.ValidateEmail(*address)
}
