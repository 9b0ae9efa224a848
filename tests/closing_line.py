"""A pytest plugin whose last line of output counts the tests: scripts/test -p tests.closing_line

After pytest's own summary, alone on a line: `5 passed, 0 failed, 1 skipped`. Each test counts once.
One that fails in its setup or teardown has failed; one that is expected to fail counts as skipped. Nothing is
printed for a run that was interrupted, for its numbers are no result. The exit code stays pytest's.
"""

from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return  # xdist's workers have no reporter

    def tests(*outcomes: str) -> set[str]:
        return {report.nodeid for outcome in outcomes for report in reporter.stats.get(outcome, ())}

    failed = tests("failed", "error")
    skipped = tests("skipped", "xfailed") - failed
    passed = tests("passed", "xpassed") - failed - skipped
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True)
