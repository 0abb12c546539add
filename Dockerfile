# One image for every process of the product. Without arguments it runs all of them, embedded servers included:
#   docker run -p 127.0.0.1:8000:8000 -v awmweb:/data awmweb
# A tag can be moved; a digest cannot: docker build --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:... .
# (docs/operations.md says where to read it)
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE}

ENV PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 AWMWEB_VAR=/data AWMWEB_HOST=0.0.0.0
WORKDIR /app

# What is in requirements.lock, and the extras, which nothing loads without their settings
COPY requirements-extras.lock ./
RUN python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements-extras.lock

# docker build --build-arg AWMWEB_COMMIT=$(git rev-parse --short=8 HEAD) . : what /health and backups name
ARG AWMWEB_COMMIT=""
LABEL org.opencontainers.image.revision=${AWMWEB_COMMIT}
COPY . .
RUN printf %s "$AWMWEB_COMMIT" > awmenv/commit.txt
RUN python -m compileall -q awmclient awmenv awmweb curriculum episodes experts exports imports notices people reviews runs
# A new volume takes its owner from the folder of the image
RUN mkdir -p /data /backups && chown nobody /data /backups && chmod 700 /data /backups

# PostgreSQL does not run as root, and its initdb wants an account that has a name
USER nobody
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["python", "manage.py", "up"]
