# The image of every role of geotrain: `docker run geotrain:dev controller|extender|sidecar|router`.
#
# Where wheels of the locked packages lie in build/wheels (e2e/testbed puts them there), they are used and
# the build needs no package index.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS base
# The sidecar redirects with nft.
RUN command -v nft > /dev/null || { apt-get update && apt-get install -y --no-install-recommends nftables && rm -rf /var/lib/apt/lists/*; }

FROM base AS build
RUN python3 -m venv /opt/geotrain/venv
COPY requirements.lock build/wheel[s] /src/
# Left out: plots, which the command line draws elsewhere, and a second Kubernetes client. Compiled here,
# since the user it runs as may not write there. numba and numpy stay: they make the planner fast.
RUN cd /src && if ls ./*.whl > /dev/null 2>&1; then set -- --no-index --find-links=/src; fi && \
    /opt/geotrain/venv/bin/pip install --quiet --no-cache-dir --no-compile --require-hashes "$@" -r requirements.lock && \
    /opt/geotrain/venv/bin/pip uninstall --quiet --yes matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing && \
    /opt/geotrain/venv/bin/pip uninstall --quiet --yes setuptools pip && \
    rm -rf /opt/geotrain/venv/lib/python3*/site-packages/kubernetes/aio && \
    find /opt/geotrain/venv -name tests -type d -prune -exec rm -rf {} + && \
    find /opt/geotrain/venv \( -name '*.pyi' -o -name '*.pyx' \) -delete && \
    /opt/geotrain/venv/bin/python -m compileall -q /opt/geotrain/venv/lib
COPY operator/geotrain /opt/geotrain/lib/geotrain
RUN /opt/geotrain/venv/bin/python -m compileall -q /opt/geotrain/lib

FROM base
COPY --from=build /opt/geotrain/venv /opt/geotrain/venv
COPY --from=build /opt/geotrain/lib /opt/geotrain/lib
ENV PATH=/opt/geotrain/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/opt/geotrain/lib \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
# Only the sidecar needs more, and says so in its pod.
USER 65532:65532
ENTRYPOINT ["python", "-m", "geotrain"]
