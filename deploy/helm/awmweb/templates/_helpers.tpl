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

{{- define "awmweb.host" -}}
{{ (urlParse .Values.publicUrl).host }}
{{- end }}

{{- /* No pod needs the cluster's API, a privilege or a user with rights. */}}
{{- define "awmweb.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65534
  runAsGroup: 65534
  fsGroup: 65534
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "awmweb.container" -}}
image: {{ include "awmweb.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* What every process of the product has: settings, secrets, the data folder. */}}
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
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: keys, mountPath: /keys, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "awmweb.volumes" -}}
volumes:
  - name: data
    persistentVolumeClaim: {claimName: {{ include "awmweb.claim" . }}}
  - name: keys
    secret:
      secretName: {{ .Values.existingSecret }}
      items: [{key: attest_key, path: attest_key}]
  - name: tmp
    emptyDir: {}
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
