"""Runs the tests of this folder: on this computer, in QEMU, or with --test-port on a board; check.h has the format."""

import os
import re
import selectors
import subprocess
import time

import click
from platformio.public import TestCase, TestCaseSource, TestRunnerBase, TestStatus
from platformio.test.exception import UnitTestSuiteError

LIMIT_S = 60.0
RESULT = re.compile(r"(?P<ok>ok|not ok) (?P<name>\w+)(: (?P<file>[^:]+):(?P<line>\d+): (?P<what>.*))?")


class CustomTestRunner(TestRunnerBase):
    """Uploads only where there is a board."""

    def setup(self):
        self.options.without_uploading = self.options.without_uploading or not self.get_test_port()

    def command(self):
        folder = os.path.join(self.project_config.get("platformio", "build_dir"), self.test_suite.env_name)
        machine = self.project_config.get(f"env:{self.test_suite.env_name}", "custom_qemu_machine", None)
        if not machine:
            return [os.path.join(folder, "program")]
        quiet = ["-nodefaults", "-display", "none", "-serial", "stdio"]
        return ["qemu-system-arm", "-M", machine, *quiet, "-kernel", os.path.join(folder, "firmware.elf")]

    def stage_testing(self):
        if self.get_test_port():
            return super().stage_testing()
        click.secho("Testing...", bold=True)
        end = time.monotonic() + LIMIT_S
        with subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                with selectors.DefaultSelector() as selector:
                    selector.register(process.stdout, selectors.EVENT_READ)
                    while not self.test_suite.is_finished():
                        data = selector.select(end - time.monotonic()) and os.read(process.stdout.fileno(), 4096)
                        if not data:
                            why = "ended before it was done" if data == b"" else f"was not done after {LIMIT_S:.0f} s"
                            raise UnitTestSuiteError(f"the test {why}")
                        self.on_testing_data_output(data)
            finally:
                process.kill()
        return None

    def on_testing_line_output(self, line):
        click.echo(line, nl=False)
        if line.strip() == "done":
            self.test_suite.on_finish()
        elif match := RESULT.fullmatch(line.strip()):
            self.test_suite.add_case(
                TestCase(
                    name=match["name"],
                    status=TestStatus.PASSED if match["ok"] == "ok" else TestStatus.FAILED,
                    message=match["what"],
                    source=TestCaseSource(match["file"], int(match["line"])) if match["file"] else None,
                )
            )
