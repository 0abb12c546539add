{{- define "awmweb.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "awmweb.labels" -}}
app.kubernetes.io/name: awmweb
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ include "awmweb.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* A tag and a label have no `+`: 0.3.0+75f12609 is 0.3.0-75f12609. */}}
{{- define "awmweb.version" -}}
{{ .Chart.AppVersion | replace "+" "-" }}
{{- end }}

{{- define "awmweb.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "awmweb.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default (include "awmweb.version" $) }}{{ end }}
{{- end }}
{{- end }}

{{- define "awmweb.claim" -}}
{{ .Values.data.existingClaim | default (printf "%s-data" (include "awmweb.name" .)) }}
{{- end }}

{{- define "awmweb.newClaim" }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  labels: {{- include "awmweb.labels" .root | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep  # an uninstall must not take keys, uploads and backups with it
spec:
  accessModes: [{{ .own.accessMode }}]
  {{- with .own.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources: {requests: {storage: {{ .own.size }}}}
{{- end }}

{{- define "awmweb.host" -}}
{{ (urlParse .Values.publicUrl).host }}
{{- end }}

{{- /* Labels and annotations of a pod; those by which it is found win over yours. */}}
{{- define "awmweb.metadata" -}}
labels:
  {{- $own := dict "app.kubernetes.io/component" .part }}
  {{- merge $own (include "awmweb.labels" .root | fromYaml) .root.Values.podLabels | toYaml | nindent 2 }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* No pod needs the cluster's API, a privilege or a user with rights. Environment servers run hostile code: what the
       account of the product may do is not theirs. */}}
{{- define "awmweb.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false  # a release called awmweb would bring names that begin as settings do
{{- with .root.Values }}
{{- if and .serviceAccountName (ne $.part "environment") }}
serviceAccountName: {{ .serviceAccountName }}
{{- end }}
{{- with .imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if has $.part (list "web" "worker" "rollouts" "environment") }}
# a lost node takes one of them
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .spread.topologyKey }}
    whenUnsatisfiable: {{ .spread.whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{- include "awmweb.selector" (dict "root" $.root "part" $.part) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65534
  runAsGroup: 65534
  fsGroup: 65534
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "awmweb.container" -}}
image: {{ include "awmweb.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* The authorities that clients believe, by the names that each of them reads. */}}
{{- define "awmweb.authorities" -}}
{{- if .Values.ca.configMap }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "AWS_CA_BUNDLE" }}
- {name: {{ . }}, value: /ca/{{ $.Values.ca.key }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* What every process of the product has: settings, secrets, the data folder. The key that signs outcomes is a file. */}}
{{- define "awmweb.product" -}}
envFrom:
  - configMapRef: {name: {{ include "awmweb.name" . }}}
  - secretRef: {name: {{ .Values.existingSecret }}}
env:
  - name: AWMENV_ATTEST_KEY_FILE
    value: /keys/attest_key
  - name: DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ .Values.existingSecret }}, key: DATABASE_URL}}
  - name: REDIS_URL
    valueFrom: {secretKeyRef: {name: {{ .Values.existingSecret }}, key: REDIS_URL}}
  {{- include "awmweb.authorities" . | nindent 2 }}
volumeMounts:
  - {name: data, mountPath: /data}
  {{- include "awmweb.mounts" . | nindent 2 }}
{{- end }}

{{- define "awmweb.mounts" -}}
- {name: keys, mountPath: /keys, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.ca.configMap }}
- {name: ca, mountPath: /ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "awmweb.volumes" -}}
volumes:
  - name: data
    persistentVolumeClaim: {claimName: {{ include "awmweb.claim" .root }}}
  - name: keys
    secret:
      secretName: {{ .root.Values.attestSecret }}
      items: [{key: attest_key, path: attest_key}]
  {{- with .root.Values.ca.configMap }}
  - name: ca
    configMap: {name: {{ . }}}
  {{- end }}
  - name: tmp
    emptyDir: {sizeLimit: {{ .tmpSize }}}
{{- end }}

{{- /* Old pods go on while the job migrates: migrations add before anything is taken away. New pods wait here. */}}
{{- define "awmweb.waits" -}}
initContainers:
  - name: wait-for-migrations
    {{- include "awmweb.container" . | nindent 4 }}
    command: [sh, -c, "until python manage.py migrate --check >/dev/null 2>&1; do sleep 2; done"]
    {{- include "awmweb.product" . | nindent 4 }}
    resources: {{- toYaml .Values.prepare.resources | nindent 6 }}
{{- end }}
