# Sourced by scripts/test: the browser and the Redis server that tests use, and the steps with their summary.
# shellcheck shell=bash

# missing WHAT HOW: a tool that tests need cannot be had here.
missing() {
    if [ "${CI:-}" = true ]; then die "The tests need $1, and CI leaves none out. $2"; fi
    printf '\n!!! No %s: THE TESTS THAT NEED IT ARE LEFT OUT. %s\n\n' "$1" "$2" >&2
}

browser_runs() { [ -n "$1" ] && "$1" --version >/dev/null 2>&1 </dev/null; }

downloaded_browser() {
    "$VENV/bin/python" -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)' 2>/dev/null
}

# find_browser: prints the first that starts, of: the one named, those on PATH, Playwright's own if it was downloaded.
find_browser() {
    local name path
    for name in "${HUB_TEST_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable; do
        path="$(command -v "$name")" && browser_runs "$path" && echo "$path" && return
    done
    path="$(downloaded_browser)" && browser_runs "$path" && echo "$path"
}

# Exports HUB_TEST_BROWSER, the path of a Chromium or Chrome; in CI also HUB_REQUIRE_BROWSER=1.
need_browser() {
    local found
    # Playwright's own Node needs a library that a small Debian lacks; ours does not.
    PLAYWRIGHT_NODEJS_PATH="$(command -v node)"
    export PLAYWRIGHT_NODEJS_PATH
    if ! found="$(find_browser)"; then
        say "No Chromium or Chrome is here; trying Playwright's own download"
        timeout 300 "$VENV/bin/python" -m playwright install --no-shell chromium >/dev/null 2>&1 ||
            say "That did not work"
        if ! found="$(find_browser)"; then
            apt_install chromium fonts-liberation || true
            found="$(find_browser)" || { missing browser "Install Chromium (Debian: apt-get install chromium)."; return; }
        fi
    fi
    export HUB_TEST_BROWSER="$found"
    if [ "${CI:-}" = true ]; then export HUB_REQUIRE_BROWSER=1; fi
}

# Exports HUB_TEST_REDIS, the path of a redis-server that is not ours; in CI also HUB_REQUIRE_REDIS=1.
need_redis() {
    if ! command -v redis-server >/dev/null && ! apt_install redis-server; then
        missing redis-server "Install it (Debian: apt-get install redis-server)."
        return
    fi
    HUB_TEST_REDIS="$(command -v redis-server)"
    export HUB_TEST_REDIS
    if [ "${CI:-}" = true ]; then export HUB_REQUIRE_REDIS=1; fi
}

REPORT=()      # a line for each step
CHECKS_FAILED=0 # steps but for pytest, whose tests are counted one by one
PYTEST_CODE=0

# step NAME COMMAND...: runs it and remembers how it went.
step() {
    local name="$1" start=$SECONDS code=0 outcome=ok
    shift
    printf '\n==> %s\n' "$name"
    "$@" || { code=$? outcome=FAILED; }
    if [ "$name" = pytest ]; then PYTEST_CODE=$code; elif [ "$code" != 0 ]; then CHECKS_FAILED=$((CHECKS_FAILED + 1)); fi
    REPORT+=("$(printf '%-14s %-8s %4d s' "$name" "$outcome" $((SECONDS - start)))")
}

# summary JUNIT: a line a step, then the totals of checks and tests together; false if anything failed.
summary() {
    printf '\n==> Summary\n'
    printf '%s\n' "${REPORT[@]}"
    python - "$1" $((${#REPORT[@]} - 1)) "$CHECKS_FAILED" "$PYTEST_CODE" <<'PYTHON'
import sys
import xml.etree.ElementTree as xml

checks, checks_failed, pytest_code = map(int, sys.argv[2:])
try:
    suites = list(xml.parse(sys.argv[1]).getroot().iter("testsuite"))
except xml.ParseError:  # pytest ended before it could report
    suites = []
tests, failures, errors, skipped = (
    sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
)
tests_failed = failures + errors
# pytest can fail without a test that does: nothing collected, a broken conftest.
failed = checks_failed + (tests_failed or int(pytest_code != 0))
print(f"total: {checks - checks_failed + tests - tests_failed - skipped} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
PYTHON
}
