package main

// An rpcMethod names a method of the daemon, with the Go types of its params and its result. "" is
// an object without fields.
type rpcMethod struct{ name, params, result string }

// rpcMethods lists the methods of package client, by the constant that names each.
var rpcMethods = []rpcMethod{
	{"MethodInfo", "", "client.DaemonInfo"},
	{"MethodPing", "", ""},
	{"MethodHello", "client.HelloParams", "client.HelloReply"},
	{"MethodCreate", "client.CreateParams", "session.Info"},
	{"MethodList", "", "list"},
	{"MethodGet", "client.NameParams", "session.Info"},
	{"MethodResize", "client.ResizeParams", ""},
	{"MethodScreen", "client.NameParams", "session.Screen"},
	{"MethodReset", "client.EndParams", "session.Info"},
	{"MethodClose", "client.EndParams", ""},
	{"MethodStart", "client.StartParams", "session.Reply"},
	{"MethodInput", "client.InputParams", "session.Reply"},
	{"MethodType", "client.TypeParams", "client.TypeReply"},
	{"MethodWait", "client.WaitParams", "session.Reply"},
	{"MethodInterrupt", "client.InterruptParams", "client.InterruptReply"},
	{"MethodGrant", "client.GrantParams", ""},
	{"MethodAnswerPermission", "client.AnswerPermissionParams", ""},
	{"MethodComplete", "client.QueryParams", "session.Completion"},
	{"MethodParse", "client.QueryParams", "client.ParseReply"},
	{"MethodVariables", "client.NameParams", "session.Variables"},
	{"MethodInspect", "client.QueryParams", "session.Inspection"},
	{"MethodDestinations", "client.NameParams", "client.Destinations"},
	{"MethodVisibleHome", "client.NameParams", "session.Visibility"},
	{"MethodOutput", "client.OutputParams", "session.Output"},
	{"MethodRead", "client.ReadParams", "session.EventPage"},
	{"MethodOutline", "client.OutlineParams", "session.TurnSummaries"},
	{"MethodSearch", "client.SearchParams", "session.SearchResult"},
	{"MethodBlob", "client.BlobParams", "session.BlobPart"},
	{"MethodFiles", "client.FilesParams", "client.FileList"},
	{"MethodFile", "client.FileParams", "session.FilePart"},
	{"MethodListCrashed", "", "client.CrashedSessions"},
	{"MethodTakeWriteLock", "client.WriteLockParams", ""},
	{"MethodReleaseWriteLock", "client.WriteLockParams", ""},
	{"MethodReadCursor", "client.ReadCursorParams", "client.ReadCursor"},
	{"MethodClients", "client.NameParams", "client.ClientList"},
	{"MethodDetach", "client.DetachParams", ""},
	{"MethodSubscribe", "client.SubscribeParams", "client.SubscribeReply"},
	{"MethodPause", "client.SubscriptionParams", "client.SubscribeReply"},
	{"MethodResume", "client.SubscriptionParams", "client.SubscribeReply"},
	{"MethodUnsubscribe", "client.SubscriptionParams", ""},
}

// rpcNotifications are sent by the daemon.
var rpcNotifications = []rpcMethod{
	{"MethodSnapshot", "client.Snapshot", ""},
	{"MethodEvent", "client.LiveEvent", ""},
	{"MethodChange", "client.ChangeNotice", ""},
	{"MethodEnded", "client.SubscriptionEnd", ""},
	{"MethodProgress", "client.PreparationProgress", ""},
	{"MethodTurnAccepted", "client.TurnAccepted", ""},
}

// renamedTypes maps types to the type that writes their JSON.
var renamedTypes = map[string]string{
	"session.Info":         "session.infoJSON",
	"session.Reply":        "session.replyJSON",
	"event.Event":          "event.eventJSON",
	"timeline.TurnSummary": "timeline.summaryJSON",
}

// typeNames has the names of types in the schema and in other languages, where the Go name alone is
// unclear or taken.
var typeNames = map[string]string{
	"client.DaemonInfo":    "Daemon",
	"client.SessionLimits": "SessionLimits",
	"session.infoJSON":     "Session",
	"session.replyJSON":    "Reply",
	"timeline.summaryJSON": "TurnSummary",
	"event.eventJSON":      "Event",
	"session.Kind":         "ErrorKind",
	"session.Variables":    "Variables",
	"list":                 "SessionList",
}

// handWrittenKinds has types whose JSON is not described by a struct.
var handWrittenKinds = map[string]typeForm{
	"session.State":   {enum: []string{"preparing", "starting", "idle", "running", "waiting", "stopping", "ended"}},
	"event.Seq":       {basic: integer},
	"time.Time":       {basic: text},
	"json.RawMessage": {basic: anyValue},
	"event.dataJSON":  {basic: anyValue},
}
