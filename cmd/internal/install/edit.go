package install

import (
	"errors"
	"fmt"
	"slices"
)

// maxEditAttempts bounds how often EditList starts again because another program has changed the
// file.
const maxEditAttempts = 100

// EditList changes one list of strings in a table of a TOML file, and nothing else. It creates a
// missing file, readable only by the user. at has the table's keys. Two programs that edit at the
// same time both succeed.
func EditList(path string, at []string, key string, change func(list []string) []string) error {
	for range maxEditAttempts {
		err := editOnce(path, at, key, change)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errChanged) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return fmt.Errorf("%s: %w", path, errChanged)
}

func editOnce(path string, at []string, key string, change func([]string) []string) error {
	file, err := readFile(path)
	if err != nil {
		return err
	}
	tree, err := tomlFormat{}.parse(file.text)
	if err != nil {
		return err
	}
	var list []string
	if old, ok := lookupKeys(tree, append(slices.Clone(at), key)); ok {
		items, ok := old.([]any)
		if !ok {
			return formatErrorf("%s.%s is not a list", tomlKey(at), key)
		}
		for _, item := range items {
			text, ok := item.(string)
			if !ok {
				return formatErrorf("%s.%s is not a list of strings", tomlKey(at), key)
			}
			list = append(list, text)
		}
	}
	changed := change(slices.Clone(list))
	if slices.Equal(changed, list) {
		return nil
	}
	text, err := putVerified(tomlFormat{}, file.text, at, []configSetting{{key: key, value: changed}})
	if err != nil {
		return err
	}
	return file.replaceFile(text)
}
