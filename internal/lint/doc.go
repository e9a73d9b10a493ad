// Package lint holds the repository to its own rules; it has only tests. The rules are those that no
// common tool knows, such as which way imports point and what the cores may not call.
package lint
